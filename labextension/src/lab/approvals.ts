/** What waits for the user, as the kernel lists it. No DOM. */
import type { PendingApproval } from '../protocol';

/** Approvals are numbered anew in every kernel; runs are not. */
export function approvalKey({ run_id, approval_id }: PendingApproval): string {
  return `${run_id} ${approval_id}`;
}
