/** The event that tells a drawn run that its kernel is gone: the run itself may not see it. */
export const CUT_OFF = 'ipyagent:cut-off';
