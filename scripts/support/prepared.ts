/** The environment variables by which `pnpm test` tells its test files, and what these start, what it has made for all. */

/** The directory of the bundles of Workflows. */
export const PREPARED_BUNDLES = 'PREPARED_WORKFLOW_BUNDLES';

/** The command line's JavaScript. */
export const BUILT_COMMAND_LINE = 'BUILT_COMMAND_LINE';

/** The `host:port` of the Temporal server that files share which need none of their own. */
export const SHARED_SERVER = 'SHARED_TEMPORAL_SERVER';

/** The path of the package's tarball, maybe relative to the root: the one that `pnpm verify` has checked, or a new one. */
export const PACKED_PACKAGE = 'PACKED_PACKAGE';
