/**
 * What the bundler of Workflow code finds in the place of an entry for Node, by the condition `browser` in package.json. No module has
 * this name, so the bundler's error says it, and no worker starts. (It would complain of each missing name, too, without `Object`.)
 *
 * @module
 */
export = Object(
  require('Workflow code imports temporal-semaphore/workflow (also /workflows and /fencing-workflow). The other entries are for Node'),
);
