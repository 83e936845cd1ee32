"""The fenced log of one owner: take-over, commit, damage."""
