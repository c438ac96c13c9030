"""What a backend accepts, the form to emit for it, and the findings where it can't take a model."""
