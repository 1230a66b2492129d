"""The engine of many processes, which share the data and talk over MPI."""
