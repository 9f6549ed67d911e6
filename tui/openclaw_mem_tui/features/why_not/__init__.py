"""Why a passage is not in the answer."""
