import type { TopLevelSpec } from 'vega-lite' with { 'resolution-mode': 'import' };
import type { Point } from './growth';

/** The curves as SVG, by name. */
export async function charts(points: readonly Point[]): Promise<[name: string, svg: string][]> {
  return [
    [
      'growth-waiters',
      await draw(
        points.filter(({ curve }) => curve === 'waiters'),
        'waiters',
        'waiters on 10 slots',
      ),
    ],
    [
      'growth-slots',
      await draw(
        points.filter(({ curve }) => curve === 'slots'),
        'slots',
        'slots, 300 waiters',
      ),
    ],
  ];
}

async function draw(values: readonly Point[], x: keyof Point, title: string): Promise<string> {
  const curve = (y: keyof Point, name: string) => ({
    width: 260,
    height: 180,
    mark: { type: 'line' as const, point: true },
    encoding: {
      x: { field: x, type: 'quantitative' as const, scale: { type: 'log' as const }, title },
      y: { field: y, type: 'quantitative' as const, title: name, scale: { zero: true } },
    },
  });
  const { parse, View } = await import('vega');
  const { compile } = await import('vega-lite');
  const spec: TopLevelSpec = {
    data: { values: [...values] },
    hconcat: [
      curve('perSecond', 'holds a second'),
      curve('handOffMs', 'hand-off, median, ms'),
      curve('eventsEach', 'history events of each hold'),
    ],
    background: 'white',
  };
  return await new View(parse(compile(spec).spec)).toSVG();
}
