/** Plots of figures as SVG. */
import { type Figure, ratio } from './figure.ts'

const [labelWidth, plotWidth, rowHeight, top] = [330, 420, 20, 52]
const colours = ['#0b6e99', '#b35900', '#5b7f1f', '#7a4fa3', '#8a8a8a']

interface Bar {
  readonly label: string
  readonly value: number
  readonly colour: string
  readonly formatted: string
}

/**
 * Returns an SVG with a bar for each figure: the ratio to each peer on a logarithmic axis with a line at 1, or the values themselves where no
 * figure has a peer.
 */
export function plot(title: string, figures: readonly Figure[]): string {
  const peers = [...new Set(figures.flatMap((figure) => Object.keys(figure.peers ?? {})))]
  return peers.length > 0 ? ratioPlot(title, figures, peers) : valuePlot(title, figures)
}

function ratioPlot(title: string, figures: readonly Figure[], peers: readonly string[]): string {
  const bars = figures.flatMap((figure) =>
    Object.entries(figure.peers ?? {}).map(([peer, value]): Bar => {
      const times = ratio(figure, value)
      return {
        label: `${figure.measure}, ${figure.unit}`,
        value: times,
        colour: colourOf(peers.indexOf(peer)),
        formatted: times.toFixed(2),
      }
    }),
  )
  const reach = Math.max(1, ...bars.map(({ value }) => Math.abs(Math.log10(value))))
  // Room for the number beside the longest bar.
  const at = (value: number) => labelWidth + (plotWidth / 2) * (1 + (0.82 * Math.log10(value)) / reach)
  const one = at(1)
  const legend = peers.map((peer, index) => text(10 + index * 190, 38, `■ multiple of ${peer}`, colourOf(index), 'start', 11)).join('')
  const drawn = bars.map((bar, row) => {
    const [y, x] = [top + row * rowHeight, at(bar.value)]
    const rect = `<rect x="${n(Math.min(one, x))}" y="${y + 3}" width="${n(Math.max(1, Math.abs(x - one)))}" height="${rowHeight - 7}" fill="${bar.colour}"/>`
    const isRight = bar.value >= 1
    return `${text(labelWidth - 8, y + 14, bar.label, '#222', 'end', 11)}${rect}${text(isRight ? x + 4 : x - 4, y + 14, bar.formatted, '#222', isRight ? 'start' : 'end', 11)}`
  })
  const axis = `<line x1="${n(one)}" y1="${top - 4}" x2="${n(one)}" y2="${top + bars.length * rowHeight}" stroke="#222"/>`
  return svg(title, bars.length, `${legend}${drawn.join('\n')}${axis}`)
}

function valuePlot(title: string, figures: readonly Figure[]): string {
  const units = [...new Set(figures.map(({ unit }) => unit))]
  const bars = figures.flatMap(({ measure, unit, value, p95 }): Bar[] => {
    const bar = (label: string, amount: number, index: number): Bar => ({
      label: `${label}, ${unit}`,
      value: amount / Math.max(...figures.filter((figure) => figure.unit === unit).map((figure) => figure.p95 ?? figure.value)),
      colour: colourOf(index),
      formatted: amount >= 100 ? amount.toFixed(0) : String(Number(amount.toPrecision(3))),
    })
    return [bar(measure, value, units.indexOf(unit)), ...(p95 === undefined ? [] : [bar(`${measure}, p95`, p95, 4)])]
  })
  const drawn = bars.map(({ label, value, colour, formatted }, row) => {
    const [y, width] = [top + row * rowHeight, Math.max(1, value * (plotWidth - 50))]
    const rect = `<rect x="${labelWidth}" y="${y + 3}" width="${n(width)}" height="${rowHeight - 7}" fill="${colour}"/>`
    return `${text(labelWidth - 8, y + 14, label, '#222', 'end', 11)}${rect}${text(labelWidth + width + 4, y + 14, formatted, '#222', 'start', 11)}`
  })
  return svg(title, bars.length, drawn.join('\n'))
}

function svg(title: string, rows: number, content: string): string {
  const [width, height] = [labelWidth + plotWidth + 60, top + rows * rowHeight + 12]
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="sans-serif" role="img">
<title>${escapeXml(title)}</title>
<rect width="${width}" height="${height}" fill="#fff"/>
${text(10, 20, title, '#222', 'start', 15)}
${content}
</svg>
`
}

function text(x: number, y: number, content: string, colour: string, anchor: 'start' | 'end', size: number): string {
  return `<text x="${n(x)}" y="${y}" font-size="${size}" fill="${colour}" text-anchor="${anchor}">${escapeXml(content)}</text>`
}

function colourOf(index: number): string {
  return colours[index % colours.length] ?? '#222'
}

function n(value: number): string {
  return value.toFixed(1)
}

function escapeXml(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
