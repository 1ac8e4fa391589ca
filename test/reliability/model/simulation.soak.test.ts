// The simulation of the whole, with as many seeds as a release is tried with.
process.env.SIMULATION_RUNS ??= '5000';
require('./simulation.test');
