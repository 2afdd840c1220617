/** Text of drawings. */
import { expect, test } from 'vitest'
import { readBytes } from '../support/read-bytes.ts'

const svg = (inner: string) =>
  Buffer.from(
    `<svg xmlns="http://www.w3.org/2000/svg" xmlns:s="http://www.w3.org/2000/svg" xmlns:sodipodi="x" width="90" height="60">${inner}</svg>`,
  )
const textOf = async (inner: string): Promise<string> => (await readBytes(svg(inner), 'a.svg')).text

const invisible =
  '<style>.a{fill:red}</style><script>let x</script><metadata><dc:format xmlns:dc="d">image/svg+xml</dc:format></metadata><defs><style type="text/css">b{}</style></defs>'

test('style sheets, scripts and metadata are no text, and do not prevent OCR', async () => {
  const { pages } = await readBytes(svg(`${invisible}<path d="M0 0L9 9"/>`), 'a.svg')
  expect(pages).toMatchObject([{ text: '', needsOcr: true }])
  const labelled = await readBytes(svg(`${invisible}<title>Plan</title><g><text>label<style>c{}</style></text></g>`), 'a.svg')
  expect(labelled.pages).toMatchObject([{ text: 'Plan\nlabel', needsOcr: false }])
})

test('spans divide words only where a line begins', async () => {
  expect(
    await textOf('<text x="1" y="9">Har<tspan font-weight="bold">bour</tspan>\n  <tspan x="9">fees</tspan></text><text>2</text>'),
  ).toBe('Harbour fees\n2')
  expect(await textOf('<text x="1" y="9"><tspan x="1" y="9">one</tspan><tspan x="1" y="20">two</tspan></text>')).toBe('one\ntwo')
  expect(await textOf('<text x="1" y="9"><tspan x="1" dy="0">one</tspan><tspan x="1" dy="1.2em">two</tspan></text>')).toBe('one\ntwo')
  expect(await textOf('<text><tspan sodipodi:role="line">one</tspan><tspan sodipodi:role="line">two</tspan></text>')).toBe('one\ntwo')
})

test('elements with a prefix, flowing text, HTML in the drawing', async () => {
  expect(await textOf('<s:text>pre<s:tspan>fix</s:tspan></s:text>')).toBe('prefix')
  expect(await textOf('<flowRoot><flowPara>one</flowPara><flowPara>two</flowPara></flowRoot>')).toBe('one\ntwo')
  expect(await textOf('<foreignObject><div><b>b</b>old</div><div>next</div></foreignObject>')).toBe('bold\nnext')
})
