/** Pictures of pages with the words of a search, on the web page. */
import type { Browser, Locator } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ReadFailure } from '../../src/ports/document-reader.ts'
import { upload } from '../support/app.ts'
import { pdf } from '../support/data/pdf-file.ts'
import { hasBrowser, openBrowser } from '../support/processes/chromium.ts'
import { expectAccessible, looks, servePage } from '../support/servers/web-page.ts'

let browser: Browser

/** Returns the share of yellow pixels in the upper and in the lower half of a displayed picture. */
async function yellowShares(picture: Locator): Promise<number[]> {
  const { data, info } = await sharp(await picture.screenshot())
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true })
  const half = info.width * Math.floor(info.height / 2) * 3
  return [data.subarray(0, half), data.subarray(half)].map((pixels) => {
    let yellow = 0
    for (let at = 0; at + 2 < pixels.length; at += 3) if (pixels[at]! > 200 && pixels[at + 1]! > 180 && pixels[at + 2]! < 120) yellow++
    return yellow / (pixels.length / 3)
  })
}

const isLoaded = (image: Locator) =>
  image.evaluate((element) => {
    const { complete, naturalWidth } = element as unknown as { complete: boolean; naturalWidth: number }
    return complete && naturalWidth > 50
  })

describe.skipIf(!hasBrowser())('pictures of pages on the web page', () => {
  beforeAll(async () => {
    browser = await openBrowser()
  })
  afterAll(() => browser.close())

  test('a result opens at the page of the words, which are marked on the picture and in the text; without script', async () => {
    const { open, signIn, asAda, runJobs, trouble } = await servePage(browser)
    const pages = Array.from({ length: 43 }, (_, i) => ({
      text: [`Sheet ${i + 1}`, i === 41 ? 'The harbour fee' : 'The fee'],
      leading: 60,
    }))
    const { id } = await upload(asAda, 'fees.pdf', pdf({ pages }))
    await runJobs()
    const { page } = await open({ javaScriptEnabled: false })
    await signIn(page, '/?q=fee+harbour')
    await page.locator('.results h2 a').click()
    expect(page.url()).toMatch(/\?page=3&at=42&q=fee\+harbour#page-42$/)
    expect(await page.getByRole('searchbox').inputValue()).toBe('fee harbour')
    expect(await page.locator('.page h3').allTextContents()).toEqual(['Page 41', 'Page 42', 'Page 43'])
    await page.getByRole('navigation', { name: 'Pages with matches' }).getByRole('link', { name: 'Page 42' }).click()
    expect(new URL(page.url()).hash).toBe('#page-42')
    expect(await page.locator('#page-42 mark').allTextContents()).toEqual(['harbour', 'fee'])
    const picture = page.getByRole('link', { name: 'Page 42 of fees' })
    for (const image of await picture.locator('img').all()) await expect.poll(() => isLoaded(image), { timeout: 30_000 }).toBe(true)
    const [upper, lower] = await yellowShares(picture)
    expect(upper).toBeGreaterThan(0.01)
    expect(lower).toBe(0)
    const number = page.getByRole('spinbutton', { name: 'Page' })
    expect(await number.inputValue()).toBe('42')
    await number.fill('7')
    await number.press('Enter')
    expect(page.url()).toMatch(/\?page=1&at=7&q=fee\+harbour#page-7$/)
    for (const [at, shown] of [
      ['99', 43],
      ['0', 1],
      ['x', 1],
    ] as const) {
      await page.goto(`/documents/${id}?at=${at}`)
      expect(new URL(page.url()).hash).toBe(`#page-${shown}`)
    }
    await page.goto(`/documents/${id}?page=3`)
    expect(await page.locator('.marks, mark').count()).toBe(0)
    expect(trouble).toEqual([])
  })

  test('pages of a long text are all reachable, with pictures and marks; a long page is cut and says how many matches follow', async () => {
    const { open, signIn, asAda, runJobs, trouble } = await servePage(browser)
    const line = 'The quick brown fox jumps over the lazy dog by the quay. '.repeat(9)
    const pages = Array.from({ length: 45 }, (_, i) => ({
      text: [i === 36 ? 'The harbour fee' : 'Fee', ...Array(100).fill(line)],
      leading: 8,
    }))
    const { id } = await upload(asAda, 'long.pdf', pdf({ pages }))
    const words = `${'quiet words '.repeat(60_000)} harbour harbour`
    const note = await upload(asAda, 'note.txt', `harbour ${words}`)
    await runJobs()
    const { page } = await open({ javaScriptEnabled: false })
    await signIn(page, `/documents/${id}`)
    const seen = new Set(await page.locator('.page h3 a').allTextContents())
    for (let steps = 0; seen.size < 45 && steps < 20; steps++) {
      const further = page.getByRole('link', { name: /^Continue with page|^Next$/ }).first()
      await further.click()
      for (const name of await page.locator('.page h3 a').allTextContents()) seen.add(name)
    }
    expect([...seen]).toEqual(Array.from({ length: 45 }, (_, i) => `Page ${i + 1}`))
    await page.goto(`/documents/${id}?q=harbour`)
    expect(page.url()).toMatch(/\?page=2&at=37&q=harbour#page-37$/)
    expect(await page.locator('#page-37 mark').allTextContents()).toEqual(['harbour'])
    expect(await page.getByAltText('Page 37 of long').count()).toBe(1)
    await page.goto(`/documents/${note.id}?q=harbour`)
    expect(await page.locator('.page .notice').textContent()).toBe(
      'The text is long. This is its beginning; the whole text opens as a file. The rest contains 2 matches.',
    )
    expect(await page.locator('.page mark').allTextContents()).toEqual(['harbour'])
    expect(trouble).toEqual([])
  }, 120_000)

  test('a page whose picture fails is text alone; no violation of axe-core in light and dark, from 1280 to 320 pixels', async () => {
    const { app, open, signIn, asAda, runJobs, trouble } = await servePage(browser)
    const { id } = await upload(asAda, 'fees.pdf', pdf({ pages: [{ text: ['The harbour fee'] }, { text: ['Paid to the harbour'] }] }))
    await runJobs()
    await app.db.updateTable('document_pages').set({ source: 'ocr', confidence: 0.87 }).where('document_id', '=', id).execute()
    const { thumbnail } = app.previewer
    app.previewer.thumbnail = async (file, size, type, options = {}) => {
      if (options.page === 2) throw new ReadFailure('FILE_TOO_COMPLEX')
      return thumbnail(file, size, type, options)
    }
    for (const look of looks) {
      const { context, page } = await open(look)
      await signIn(page, `/documents/${id}?q=harbour`)
      expect(await page.locator('#page-1 h3').textContent()).toBe('Page 1 OCR, 87 % sure')
      await expectAccessible(page, 'document with marks')
      const failed = page.getByAltText('Page 2 of fees')
      await failed.scrollIntoViewIfNeeded()
      await expect.poll(() => isLoaded(failed), { timeout: 30_000 }).toBe(true)
      expect((await failed.boundingBox())?.height).toBeLessThan(100)
      expect(await page.locator('#page-2 pre').textContent()).toContain('Paid to the harbour')
      await context.close()
    }
    expect(trouble).toEqual([])
  }, 120_000)
})
