"""Stage replicate: chains of replicas, each answer kept in a durable store before anything else happens to it."""
