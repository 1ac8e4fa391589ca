// The simulation of the whole, which `test:unit` runs too, with a hundred times as many seeds.
process.env.SIMULATION_RUNS ??= '5000';
require('../unit/simulation.test');
