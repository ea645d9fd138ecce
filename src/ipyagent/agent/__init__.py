"""The agent itself: policy, approvals, dispatch and the loop. Nothing here knows Jupyter."""
