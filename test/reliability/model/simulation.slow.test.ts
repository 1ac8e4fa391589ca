// The simulation of the whole, which `test:unit` runs too, with many times as many seeds. `test:soak simulation` runs 5,000.
process.env.SIMULATION_RUNS ??= '500';
require('./simulation.test');
