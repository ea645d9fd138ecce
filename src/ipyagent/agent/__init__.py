"""The agent proper: policy, approvals, dispatch and the loop. No Jupyter in here."""
