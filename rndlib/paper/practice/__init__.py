"""Problems and scores of the notebook on practice."""
