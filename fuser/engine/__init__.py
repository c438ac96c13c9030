"""The engine: a read view of every graph of a model, the matcher, and the one place that edits."""
