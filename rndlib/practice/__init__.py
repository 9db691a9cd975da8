"""What the notebook on practice needs beyond the estimators: problems, and what is measured on them."""
