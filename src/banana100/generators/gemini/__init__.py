"""Google's image models (Nano Banana and its kin) through the google-genai SDK."""
