"""A loopback server that speaks the Gemini API, and a dry run of the pipeline against it."""
