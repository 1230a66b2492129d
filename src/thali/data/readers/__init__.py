"""File formats: from a path on disk to a labelled binary tensor."""
