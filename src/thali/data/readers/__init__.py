"""Read files of many formats into labelled binary tensors."""
