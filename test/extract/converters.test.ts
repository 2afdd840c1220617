/** Types that optional programs read: through the API, in the sandbox of the reader processes. */
import { describe, expect, test } from 'vitest'
import { findConverters } from '../../src/extract/converters/find-converters.ts'
import { startApp, upload } from '../support/app.ts'

const installed = findConverters(['djvulibre', 'libreoffice'])

/** Two pages of 1000 × 400 pixels: one with the hidden text "Harbour fees für 2026", one with the words "Second page of the scan without a text layer". */
const djvu = Buffer.from(
  'QVQmVEZPUk0AAANuREpWTURJUk0AAAAjgQACAAAAPAAAAc7//+i/ih/uqZjeI0Xb+AJdlwYPdfd7vWcARk9STQAAAYlESlZVSU5GTwAAAAoD6AGQGADIABYBU2piegAAASiAIW2FWQFbAVOxX9EkB6qdJoVYljOIDW9ohpaVJbEe+LsCesPh33giFlscHyqUo6rwnKOPhbW50/Eq9yHHzurRk7gQZECASLBd78/aQepf6f+BWuUgye2imlukmtKqnDzBzbXw6yECr3YynSJE9U09CyqnO3auHLsJWlwonWFU0MZS6qGBHoEKL7iTyUG201aCd4bYOtkcQY43QuZMWfGyVF3X64pqclS8nICe938a3cz4ERCVxqxjsGAoZs2UmqmOsjWrXgMhBfnyulo9Be7CpBqatkuzGvutfMHf1pDkzh6Hktgug26q/N9ZGWBArl+Ry29fgWJReoZ5jw4lty6Fr6MV08AiqwPLVPEhQL7xGkqK7/+WECKgDGxMXXydOrP3znX+8jx3T1RYVHoAAAA7///BiQSR3QUNPPp8ND0ASCWCwdahG1u5mkTv0W0ufQ0uln0z0n2g8zx7Qzxw1szrA4SZOhn8CQ67I88ARk9STQAAAaRESlZVSU5GTwAAAAoD6AGQGADIABYBU2piegAAAYaAIW2FWQFZh8VCTvWEJO6BhaOOOpwjKp7mMF7imRah2rcvfo6dzLFlnika8G05+gg83SiCFx5AF/VVnTBXIbj5PSSfLRSoI0223a4QWV1ut4taY/yadSAXQjCeQI/5nxJGQcLLH1URinkbGS2eI/Sc5o5Swi/jdKUUFZFiJSrW/5QLejQBmERVS7Tj7PNyyBMqHOZRrQ8oJhH31LoAATtbwENLQZIGzlfRvSQHr8/Yefj5G8aFZ9vmbsCm+I303HqQzRuSXtViJM+ojCYlCDeqyHqusH/Qi0EhhfS2t+RTAa9QRsrpdzVTjyhLqWz7c1LMhUjHhW/xRkzzfpbjKjHgJGAHpRU7CGnuJU4S+H7qQsWlMxZk99OaImXAdfs2fyr1UxRF/OmyI511rkChWn6INs9/fdNboNNlUIUPvIO3cr1exZjGuIMd0uLFPkUk1hru6SJlfnW+zQoNSItLXMHhXeQsq+o8+pWhP1MyCLbrhGAPYn2CyCBOVqcBWwPTNTPm3+XRvGw=',
  'base64',
)

/** A WordPerfect 6 file: spaces and line ends have codes of their own. */
const wordPerfect = (text: string): Buffer => {
  const head = Buffer.alloc(512)
  Buffer.from('ff57504300020000010a02010000100002000100', 'hex').copy(head)
  return Buffer.concat([head, Buffer.from(text.replaceAll(' ', '\x80').replaceAll('\n', '\xcc'), 'latin1')])
}
const minutes = wordPerfect('Minutes of the harbour board\nBudget approved for 2026\n')

async function readAll(files: Readonly<Record<string, Buffer>>, options: Parameters<typeof startApp>[0] = {}) {
  const { asAda, runJobs } = await startApp(options)
  const ids: string[] = []
  for (const [name, bytes] of Object.entries(files)) ids.push((await upload(asAda, name, bytes)).id)
  await runJobs()
  return Promise.all(ids.map((id) => asAda.documents.get(id)))
}

test('without their programs such files are completed without text, and a warning names the package', async () => {
  const [scan, letter] = await readAll({ 'scan.djvu': djvu, 'minutes.wpd': minutes }, { 'ocr.converters': '' })
  expect(scan).toMatchObject({ status: 'completed', error: null, mime_type: 'image/vnd.djvu', text_source: 'none' })
  expect(scan?.warnings).toEqual([
    {
      code: 'program_missing',
      message: 'Files of the type image/vnd.djvu are read if djvulibre-bin is installed.',
      package: 'djvulibre-bin',
    },
  ])
  expect(letter).toMatchObject({ text_source: 'none', warnings: [{ code: 'program_missing', package: 'libreoffice-writer' }] })
})

describe.runIf(installed.djvulibre)('with djvulibre-bin (else skipped)', () => {
  test('DjVu: the text layer, and OCR of the page without one; FILE_CORRUPT if it is cut', async () => {
    const [whole, cut] = await readAll({ 'scan.djvu': djvu, 'cut.djvu': djvu.subarray(0, 80) })
    expect(whole).toMatchObject({ status: 'completed', text_source: 'mixed', page_count: 2, warnings: [] })
    expect(whole?.content?.replace(/\s+/g, ' ')).toBe('Harbour fees für 2026 Second page of the scan without a text layer')
    expect(cut).toMatchObject({ status: 'failed', error: { code: 'FILE_CORRUPT' } })
  })
})

describe.runIf(installed.libreoffice)('with libreoffice-writer (else skipped)', () => {
  test('WordPerfect: its text; the time of the conversion is not the date of the document', async () => {
    const [document] = await readAll({ 'minutes.wpd': minutes })
    expect(document).toMatchObject({ status: 'completed', text_source: 'text_layer', document_date: null, warnings: [] })
    expect(document?.content).toBe('Minutes of the harbour board\nBudget approved for 2026')
    expect(document?.metadata).toEqual({ page_count: 1 })
  })
})
