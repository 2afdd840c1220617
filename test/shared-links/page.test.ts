/** The page of a shared link, in a real browser. */
import { readFile } from 'node:fs/promises'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { upload } from '../support/app.ts'
import { hasBrowser, openBrowser } from '../support/processes/chromium.ts'
import { startServer } from '../support/servers/server.ts'

const phone = { viewport: { width: 320, height: 640 }, isMobile: true } satisfies BrowserContextOptions
const noScript = { javaScriptEnabled: false } satisfies BrowserContextOptions

let browser: Browser

async function serve() {
  const dms = await startServer()
  const share = async (filename: string, bytes: string | Uint8Array, terms: object = {}) => {
    const document = await upload(dms.asAda, filename, bytes)
    const link = await dms.asAda.call<{ id: string; token: string }>('POST', '/api/shared-links', { document_id: document.id, ...terms })
    return { id: link.id, address: `${dms.url}/api/public/shared/${link.token}` }
  }
  return { ...dms, share }
}

/** Opens a window of a new visitor. Records its errors and pop-ups. */
async function visit(address: string, options: BrowserContextOptions = {}) {
  const context = await browser.newContext(options)
  onTestFinished(() => context.close())
  const trouble: string[] = []
  context.on('console', (message) => {
    // A refusal's own status is no trouble.
    if (message.type() === 'error' && !/status of 4\d\d/.test(message.text())) trouble.push(message.text())
  })
  context.on('dialog', (dialog) => {
    trouble.push(dialog.message())
    void dialog.dismiss()
  })
  const page = await context.newPage()
  const response = await page.goto(address)
  return { context, page, trouble, status: response?.status() }
}

const textOf = (page: Page) => page.locator('main').textContent()

async function download(page: Page): Promise<{ name: string; bytes: Buffer }> {
  const [got] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download' }).click()])
  return { name: got.suggestedFilename(), bytes: await readFile(await got.path()) }
}

async function view(context: BrowserContext, page: Page): Promise<Page> {
  const [shown] = await Promise.all([context.waitForEvent('page'), page.getByRole('button', { name: 'View' }).click()])
  await shown.waitForLoadState()
  return shown
}

describe.skipIf(!hasBrowser())('the page of a shared link', () => {
  beforeAll(async () => {
    browser = await openBrowser()
  })
  afterAll(() => browser.close())

  test('shows what is shared; Download and View work without scripts', async () => {
    const { share } = await serve()
    const { address } = await share('letter.txt', 'Dear Bob, dear Alice', { expires_at: '2999-01-01T12:00:00Z' })
    const { context, page, trouble, status } = await visit(address, noScript)
    expect(status).toBe(200)
    expect(await textOf(page)).toMatch(/letter\.txt\s+Text · 20 bytes[\s\S]*Available until 1 January 2999 at 12:00 UTC/)
    expect(await page.locator('input').count()).toBe(0)
    const file = await download(page)
    expect([file.name, file.bytes.toString()]).toEqual(['letter.txt', 'Dear Bob, dear Alice'])
    expect(await (await view(context, page)).locator('body').textContent()).toBe('Dear Bob, dear Alice')
    expect(trouble).toEqual([])
  })

  test('a picture is shown, and opening it is one view', async () => {
    const { share, asAda } = await serve()
    const png = await sharp({ create: { width: 40, height: 30, channels: 3, background: 'red' } })
      .png()
      .toBuffer()
    const { address } = await share('red.png', png)
    const { context, page } = await visit(address)
    const shown = await view(context, page)
    expect(await shown.evaluate('document.images[0].naturalWidth')).toBe(40)
    expect(await asAda.call('GET', '/api/shared-links')).toMatchObject({ shared_links: [{ view_count: 1 }] })
  })

  test('403 and the form again after a wrong password, repeatedly; the right one still downloads', async () => {
    const { share } = await serve()
    const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, at) => (at * 7919) % 251))
    const { address } = await share('data.bin', bytes, { password: 'pässwörd & more=1+1' })
    const { page, trouble } = await visit(address, noScript)
    for (const wrong of ['wrong', 'also wrong']) {
      await page.getByLabel('Password').fill(wrong)
      const [response] = await Promise.all([page.waitForResponse(`${address}/download`), page.keyboard.press('Enter')])
      expect(response.status()).toBe(403)
      await page.getByRole('alert').waitFor()
      expect(await page.getByRole('alert').textContent()).toBe('That is not the right password.')
    }
    expect(await page.content()).not.toContain('also wrong')
    await page.getByLabel('Password').fill('pässwörd & more=1+1')
    expect((await download(page)).bytes.equals(bytes)).toBe(true)
    expect(await page.getByRole('button', { name: 'View' }).count()).toBe(0)
    expect(trouble).toEqual([])
  })

  test('a name is never markup', async () => {
    const { share, app } = await serve()
    const name = `<img src=x onerror=alert(1)>"'&amp;<b onclick=alert(2)>.txt`
    const { address } = await share('a.txt', 'harmless', { password: 'p' })
    await app.db.updateTable('documents').set({ filename: name }).execute()
    const { page, trouble } = await visit(address)
    await page.getByLabel('Password').fill('wrong')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').waitFor()
    expect(await page.locator('h1').textContent()).toBe(name)
    expect(await page.title()).toBe(name)
    expect(await page.locator('img, b').count()).toBe(0)
    expect(trouble).toEqual([])
  })

  test('fits a phone with names of any length, and every button is large enough for a thumb', async () => {
    const { share } = await serve()
    const { address } = await share(`${'W'.repeat(180)}.txt`, 'x', { password: 'p' })
    const { page } = await visit(address, phone)
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(320)
    for (const box of await Promise.all((await page.locator('button, input').all()).map((one) => one.boundingBox()))) {
      expect(box?.height).toBeGreaterThanOrEqual(44)
      expect((box?.x ?? 0) + (box?.width ?? 999)).toBeLessThanOrEqual(320)
    }
  })

  test('its policy allows its own style only, and the style is applied in light and dark', async () => {
    const { share } = await serve()
    const { address } = await share('a.txt', 'x')
    const policy = (await fetch(address, { headers: { accept: 'text/html' } })).headers.get('content-security-policy')
    expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-[\w+/=]{44}'; form-action 'self'; frame-ancestors 'none'$/)
    const colours = await Promise.all(
      (['light', 'dark'] as const).map(async (colorScheme) => {
        const { page, trouble } = await visit(address, { colorScheme })
        expect(trouble).toEqual([])
        return page.evaluate('getComputedStyle(document.querySelector("main")).backgroundColor')
      }),
    )
    expect(colours).toEqual(['rgb(255, 255, 255)', 'rgb(27, 30, 38)'])
  })

  test('a link that does not work shows the reason, with the status of the API', async () => {
    const { share, asAda, url, later } = await serve()
    const soon = await share('a.txt', 'x', { expires_at: new Date(Date.now() + 60_000) })
    const gone = await share('b.txt', 'x')
    await asAda.send('DELETE', `/api/shared-links/${gone.id}`)
    const once = await share('c.txt', 'x', { max_views: 1 })
    await download((await visit(once.address)).page)
    await later(120_000)
    const seen = await Promise.all(
      [`${url}/api/public/shared/nowhere`, soon.address, gone.address, once.address].map(async (address) => {
        const { page, status } = await visit(address)
        return [status, await page.locator('h1').textContent(), await page.locator('form').count()]
      }),
    )
    expect(seen).toEqual([
      [404, 'This link leads nowhere', 0],
      [410, 'This link has expired', 0],
      [410, 'This link was withdrawn', 0],
      [410, 'This link has been used up', 0],
    ])
  })

  test('after the last view the form leads to a page that says so; API clients get JSON at the same address', async () => {
    const { share } = await serve()
    const { address } = await share('a.txt', 'x', { max_views: 1 })
    const { page } = await visit(address, noScript)
    await download(page)
    await page.getByRole('button', { name: 'Download' }).click()
    await page.getByText('This link has been used up').waitFor()
    const accepts = ['*/*', 'application/json', 'text/html;q=0, application/json', 'text/html; q=0.5, application/json']
    for (const headers of accepts.map((accept) => ({ accept })))
      expect(await (await fetch(address, { headers })).json()).toMatchObject({ error: { code: 'SHARED_LINK_MAX_VIEWS' } })
  })

  test('too many wrong passwords: the page shows how long to wait', async () => {
    const { share } = await serve()
    const { address } = await share('a.txt', 'x', { password: 'p' })
    for (let at = 0; at < 10; at++)
      await fetch(`${address}/verify`, { method: 'POST', body: '{"password":"no"}', headers: { 'content-type': 'application/json' } })
    const { page } = await visit(address, noScript)
    await page.getByLabel('Password').fill('p')
    await page.keyboard.press('Enter')
    expect(await page.getByRole('alert').textContent()).toMatch(/^Too many tries\. Wait \d+ seconds, then try again\.$/)
  })
})
