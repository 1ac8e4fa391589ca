/** Keys of a holder's memo by which a test's Workflow says that the function under its permit began or ended. */
export const BODY_MARKS = {
  began: (permitRunId: string) => `body-began:${permitRunId}`,
  ended: (permitRunId: string) => `body-ended:${permitRunId}`,
};
