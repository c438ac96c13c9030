"""The gate: judges models against limits and a baseline, for continuous integration."""
