/** The IDs of holding Workflows begin with this, and name their resource, by which flaky ones know themselves. */
export const HOLDER_PREFIX = 'chaos-holder:';
