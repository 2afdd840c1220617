/** The web page in a real browser. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { upload } from '../support/app.ts'
import { pdf } from '../support/data/pdf-file.ts'
import { hasBrowser, openBrowser } from '../support/processes/chromium.ts'
import { expectAccessible, hostile, looks, servePage } from '../support/servers/web-page.ts'

let browser: Browser
const serve = () => servePage(browser)

describe.skipIf(!hasBrowser())('the web page', () => {
  beforeAll(async () => {
    browser = await openBrowser()
  })
  afterAll(() => browser.close())

  test('search and reading work without script: login, facets, marks, pages of text, file, upload', async () => {
    const { open, signIn, asAda, runJobs, trouble } = await serve()
    const label = await asAda.labels.create({ name: 'invoices', color: '#1f5fd0' })
    const pages = Array.from({ length: 22 }, (_, index) => ({ text: [`Harbour fees, sheet ${index + 1}`] }))
    const { id } = await upload(asAda, 'fees.pdf', pdf({ pages }), { labels: label.id })
    await upload(asAda, 'notes.txt', 'Bremen, 3 March 2024\n\nThe harbour master called.')
    await runJobs()
    const { page } = await open({ javaScriptEnabled: false })
    await signIn(page, '/?q=harbour')
    expect(await page.locator('h1').textContent()).toBe('2 documents')
    // Documents without a date have the day of their arrival, which no year counts.
    expect(await page.locator('.results time').allTextContents()).toHaveLength(2)
    expect(await page.locator('.facts', { hasText: 'fees.pdf' }).textContent()).toMatch(/Added \d+ \w+ \d{4}/)
    expect(await page.locator('.snippet mark').allTextContents()).toEqual(expect.arrayContaining(['Harbour', 'harbour']))
    await page.getByRole('complementary').getByRole('link', { name: 'invoices 1' }).click()
    expect(await page.locator('h1').textContent()).toBe('1 document')
    await page.getByRole('link', { name: 'Remove filter invoices' }).click()
    await page.getByRole('link', { name: '2024 1' }).click()
    expect(await page.locator('.results').textContent()).toContain('3 Mar 2024')
    await page.getByRole('link', { name: 'Remove filter 2024' }).click()
    await page.getByRole('complementary').getByRole('link', { name: 'invoices 1' }).click()
    await page.locator('.results h2 a').click()
    expect(new URL(page.url()).pathname).toBe(`/documents/${id}`)
    expect(await page.locator('.page h3').count()).toBe(20)
    expect(await page.locator('#page-1 pre').textContent()).toContain('Harbour fees, sheet 1')
    await expect.poll(() => page.evaluate('document.querySelector(".preview img").naturalWidth'), { timeout: 30_000 }).toBeGreaterThan(100)
    await page.getByRole('link', { name: 'Next' }).click()
    expect(await page.locator('.page pre').allTextContents()).toEqual([
      expect.stringContaining('sheet 21'),
      expect.stringContaining('sheet 22'),
    ])
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download' }).click()])
    expect((await readFile(await file.path())).equals(pdf({ pages }))).toBe(true)
    await page.getByRole('link', { name: 'Upload' }).click()
    await page.setInputFiles('#files', [
      { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('Bremen, 3 March 2024\n\nThe harbour master called.') },
      { name: 'new.txt', mimeType: 'text/plain', buffer: Buffer.from('New') },
      { name: 'empty.txt', mimeType: 'text/plain', buffer: Buffer.alloc(0) },
    ])
    await page.getByRole('button', { name: 'Upload' }).click()
    expect(await page.locator('.uploads li').allTextContents()).toEqual([
      'notes.txtWas there already',
      'new.txtUploaded',
      'empty.txtthe file is empty',
    ])
    expect(trouble).toEqual([])
  })

  test('uploads by drop with progress, the queue that refreshes itself, keys: Ctrl+K and arrows, and / does nothing', async () => {
    const { open, signIn, asAda, runJobs, trouble } = await serve()
    await upload(asAda, 'one.txt', 'harbour one')
    await upload(asAda, 'two.txt', 'harbour two')
    await runJobs()
    const { page } = await open()
    await signIn(page)
    const files = await page.evaluateHandle(`(() => {
      const transfer = new DataTransfer()
      for (const name of ['dropped.txt', ${JSON.stringify(hostile)}]) transfer.items.add(new File(['dropped ' + name], name))
      return transfer
    })()`)
    await page.dispatchEvent('main', 'drop', { dataTransfer: files })
    await page.locator('.uploads li.good').nth(1).waitFor()
    expect(await page.locator('.uploads li').allTextContents()).toEqual(['dropped.txtUploaded', `${hostile}Uploaded`])
    await page.goto('/queue')
    expect(await page.locator('.tiles dd').nth(1).textContent()).toBe('2')
    await runJobs()
    // An answer that breaks off does not end the refreshes.
    await page.evaluate(`(() => {
      const { text } = Response.prototype
      Response.prototype.text = function () {
        Response.prototype.text = text
        document.body.dataset.broken = 'true'
        return Promise.reject(new TypeError('network error'))
      }
    })()`)
    await page.getByText('Nothing to do').waitFor()
    expect(await page.evaluate('document.body.dataset.broken')).toBe('true')
    await page.keyboard.press('/')
    expect(await page.evaluate('document.activeElement.id')).not.toBe('q')
    await page.keyboard.press('Control+k')
    await page.keyboard.type('harbour')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/?q=harbour')
    await page.keyboard.press('Control+k')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowDown')
    const second = await page.locator('.results h2 a').nth(1).textContent()
    expect(await page.locator(':focus').textContent()).toBe(second)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: second ?? '' }).waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.waitForURL('**/sign-in')
    await page.goBack()
    await page.getByLabel('Password').waitFor()
    expect(trouble).toEqual([])
  })

  test('titles, snippets and texts have the direction of their first letter', async () => {
    const { open, signIn, asAda, runJobs } = await serve()
    const text = 'התקרית (2026) harbour!'
    const { id } = await upload(asAda, 'harbour.txt', text, { title: text })
    await runJobs()
    const { page } = await open()
    await signIn(page)
    /** Returns whether the first character of an element is to the right of its last one. */
    const isRightToLeft = (selector: string) =>
      page.evaluate(`(() => {
        const texts = document.createTreeWalker(document.querySelector('${selector}'), NodeFilter.SHOW_TEXT)
        const lefts = []
        for (let node = texts.nextNode(); node; node = texts.nextNode())
          for (let at = 0; at < node.length; at++) {
            const range = new Range()
            range.setStart(node, at)
            range.setEnd(node, at + 1)
            if (node.data[at].trim() !== '') lefts.push(range.getBoundingClientRect().left)
          }
        return lefts.at(0) > lefts.at(-1)
      })()`)
    await page.goto('/?q=harbour')
    for (const selector of ['.results h2', '.snippet']) expect([selector, await isRightToLeft(selector)]).toEqual([selector, true])
    await page.goto(`/documents/${id}`)
    for (const selector of ['h1', 'pre']) expect([selector, await isRightToLeft(selector)]).toEqual([selector, true])
    expect(await isRightToLeft('dd')).toBe(false)
  })

  test('an upload that fails says why, and is repeated: a file that is gone, an ended session, a proxy that refuses its size', async () => {
    const { open, signIn } = await serve()
    const { page, context } = await open()
    await signIn(page, '/upload')
    const folder = await mkdtemp(join(tmpdir(), 'dms-page-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const path = join(folder, 'gone.txt')
    const item = page.locator('.uploads li').last()
    const send = async () => {
      await writeFile(path, 'harbour')
      await page.setInputFiles('#files', path)
    }
    await send()
    await rm(path)
    await page.getByRole('button', { name: 'Upload' }).click()
    await item.getByText('This is a folder, or cannot be read').waitFor()

    await page.route('**/upload', (route) => route.fulfill({ status: 413, contentType: 'text/html', body: '<h1>413</h1>' }))
    await send()
    await page.getByRole('button', { name: 'Upload' }).click()
    await item.getByText('Larger than the proxy of this server accepts').waitFor()
    expect(await item.getByRole('button').count()).toBe(0)
    await page.unroute('**/upload')

    const cookies = await context.cookies()
    await context.clearCookies()
    await send()
    await page.getByRole('button', { name: 'Upload' }).click()
    await item.getByText('You are signed out. Sign in in another tab.').waitFor()
    await context.addCookies(cookies)
    await item.getByRole('button', { name: 'Try again' }).click()
    await item.getByText('Uploaded').waitFor()
  })

  test('a file that is too large is not sent, wherever it is dropped', async () => {
    const { open, signIn } = await servePage(browser, { 'limits.max_upload_size': 1000 })
    const { page } = await open()
    await signIn(page)
    await page.route('**/upload', (route) => (route.request().method() === 'POST' ? route.abort() : route.continue()))
    for (const path of ['/', '/?q=harbour', '/queue', '/trash', '/trash/empty', '/upload', '/documents/none']) {
      await page.goto(path)
      const files = await page.evaluateHandle(`(() => {
        const transfer = new DataTransfer()
        transfer.items.add(new File(['W'.repeat(1001)], 'large.txt'))
        return transfer
      })()`)
      await page.dispatchEvent('main', 'drop', { dataTransfer: files })
      expect([path, await page.locator('.uploads li').textContent()]).toEqual([path, 'large.txtLarger than this server accepts'])
    }
  })

  test('an upload whose connection breaks is sent again with its key, and later files wait', async () => {
    const { open, signIn, asAda } = await serve()
    const { page } = await open()
    await signIn(page, '/upload')
    const keys: (string | undefined)[] = []
    let isDown = true
    await page.route('**/upload', async (route) => {
      keys.push(route.request().headers()['idempotency-key'])
      if (!isDown) return route.continue()
      // The file is stored, but its answer is lost.
      if (keys.length === 1) await route.fetch()
      return route.abort('connectionrefused')
    })
    const names = ['1.txt', '2.txt', '3.txt', '4.txt']
    await page.setInputFiles(
      '#files',
      names.map((name) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(name) })),
    )
    await page.getByRole('button', { name: 'Upload' }).click()
    await page.getByText('The connection broke. Trying again in 2 s').first().waitFor()
    expect(await page.getByText('Waiting', { exact: true }).count()).toBe(2)
    isDown = false
    await expect.poll(() => page.locator('.uploads li.good').count(), { timeout: 30_000 }).toBe(4)
    expect(await page.locator('.uploads li').allTextContents()).toEqual(names.map((name) => `${name}Uploaded`))
    expect(new Set(keys).size).toBe(4)
    expect(keys.length).toBeGreaterThan(6)
    expect((await asAda.documents.page()).pagination.total).toBe(4)
  })

  test('equal filters are one, days in reverse order are named, and a refused upload names its limit and its page', async () => {
    const { open, signIn } = await servePage(browser, { 'limits.bulk_max_files': 1 })
    const { page } = await open({ javaScriptEnabled: false })
    await signIn(page, '/?type=text/plain&type=text/plain&from=2026-02-02&to=2026-01-01')
    expect(await page.getByRole('list', { name: 'Filters in use' }).getByRole('listitem').count()).toBe(2)
    expect(await page.getByText('The first day is after the last day, so no document can match.').count()).toBe(1)
    await page.goto('/sign-in?next=/upload')
    expect(new URL(page.url()).pathname).toBe('/upload')
    await page.setInputFiles(
      '#files',
      ['1.txt', '2.txt'].map((name) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(name) })),
    )
    await page.getByRole('button', { name: 'Upload' }).click()
    expect(await page.locator('.empty p').first().textContent()).toBe('files: at most 1')
    expect(await page.locator('.empty').getByRole('link', { name: 'Upload' }).getAttribute('href')).toBe('/upload')
  })

  test('results of a search have their state, and labels as links with marks', async () => {
    const { open, signIn, asAda, runJobs } = await serve()
    const names = ['Harbour & <port>', ...Array.from({ length: 20 }, (_, index) => `fee ${index + 10}`)]
    const labels = await Promise.all(names.map((name) => asAda.labels.create({ name, color: '#1f5fd0' })))
    await upload(asAda, 'harbour.txt', 'harbour', { labels: labels.map(({ id }) => id).join() })
    await upload(asAda, 'harbour.pdf', '%PDF-1.4\nnothing')
    await runJobs()
    const { page } = await open({ javaScriptEnabled: false })
    await signIn(page, '/?q=harbour')
    expect(await page.locator('.facts', { hasText: 'harbour.pdf' }).locator('.state').textContent()).toBe('Failed')
    const facts = page.locator('.facts', { hasText: 'harbour.txt' })
    expect(await facts.locator('.state').count()).toBe(0)
    expect(await facts.getByRole('link').allTextContents()).toEqual(names.slice(0, 20))
    expect(await facts.textContent()).toMatch(/and 1 more$/)
    expect(await facts.locator('a mark').allTextContents()).toEqual(['Harbour'])
    await facts.getByRole('link', { name: 'Harbour & <port>' }).click()
    expect(new URL(page.url()).searchParams.get('label')).toBe('Harbour & <port>')
  })

  test('a form feed is a line break', async () => {
    const { open, signIn, asAda, runJobs } = await serve()
    const { id } = await upload(asAda, 'rfc.txt', 'first sheet\fsecond harbour')
    await runJobs()
    const { page } = await open({ javaScriptEnabled: false })
    await signIn(page, '/?q=harbour')
    expect(await page.locator('.snippet').textContent()).toBe('first sheet\nsecond harbour')
    await page.goto(`/documents/${id}?q=harbour`)
    expect(await page.locator('pre').innerHTML()).toBe('first sheet\nsecond <mark>harbour</mark>')
  })

  test('facets of a search beyond limits.search_max_results have counts with +', async () => {
    const { open, signIn, asAda, runJobs } = await servePage(browser, { 'limits.search_max_results': 2 })
    for (const name of ['1.txt', '2.txt', '3.txt']) await upload(asAda, name, `harbour ${name}`)
    await runJobs()
    const { page } = await open({ javaScriptEnabled: false })
    await signIn(page, '/?q=harbour')
    expect(await page.locator('h1').textContent()).toBe('More than 2 documents')
    expect(await page.getByRole('complementary').locator('.count').allTextContents()).toEqual(['2+'])
  })

  test('the API documentation is searched by words, and opens the operation of its anchor', async () => {
    const { open, trouble } = await serve()
    const { page } = await open()
    await page.goto('/api/docs#post_documents_upload')
    expect(await page.locator('details[open] summary code').allTextContents()).toEqual(['/api/documents/upload'])
    await page.keyboard.press('Control+k')
    await page.keyboard.type('labels unassign')
    expect(await page.locator('details:visible summary code').allTextContents()).toEqual(['/api/labels/{id}/unassign'])
    expect(await page.locator('output').textContent()).toMatch(/^1 of \d+ operations$/)
    for (const look of [looks[0], looks[3]]) {
      const { page } = await open(look)
      await page.goto('/api/docs#get_search')
      await expectAccessible(page, '/api/docs')
    }
    expect(trouble).toEqual([])
  }, 240_000)

  test('no violation of axe-core and no overflow, in light and dark, from 1280 to 320 pixels; names are never markup', async () => {
    const { app, open, signIn, asAda, runJobs, trouble } = await serve()
    const label = await asAda.labels.create({ name: 'plain', color: '#1f5fd0' })
    const scan = await sharp({ create: { width: 300, height: 400, channels: 3, background: 'white' } })
      .png()
      .toBuffer()
    const { id } = await upload(asAda, 'scan.png', scan, { labels: label.id })
    const evil = await upload(asAda, 'evil.txt', `harbour <script>alert(3)</script> ${hostile}`, { labels: label.id })
    await upload(asAda, 'long.txt', `${'W'.repeat(3000)} harbour`, { title: 'W'.repeat(300) })
    const broken = await upload(asAda, 'broken.pdf', '%PDF-1.4\nnothing')
    await app.db.updateTable('labels').set({ name: hostile, name_key: hostile.toLowerCase() }).execute()
    await app.db
      .updateTable('documents')
      .set({ title: `harbour ${hostile}`, filename: hostile })
      .where('id', '=', evil.id)
      .execute()
    await runJobs()
    await upload(asAda, 'waiting.txt', 'not yet read')
    for (const look of looks) {
      const { context, page } = await open(look)
      await page.goto('/sign-in?error=UNAUTHORIZED&next=//evil.example')
      await expectAccessible(page, 'sign-in')
      await signIn(page)
      const paths = [
        '/',
        '/?q=harbour',
        `/?label=${encodeURIComponent(hostile)}&from=2026-01-01`,
        '/?q=nothing-at-all',
        '/upload',
        '/queue',
      ]
      for (const path of [...paths, `/documents/${id}`, `/documents/${evil.id}`, `/documents/${broken.id}`, '/documents/none', '/none']) {
        await page.goto(path)
        await expectAccessible(page, path)
        expect.soft([path, await page.locator('img[src=x], [onclick], main script').count()]).toEqual([path, 0])
      }
      await page.goto(`/documents/${evil.id}`)
      expect(await page.locator('h1').textContent()).toBe(`harbour ${hostile}`)
      expect(await page.locator('.label').textContent()).toBe(hostile)
      expect(await page.locator('pre').textContent()).toContain('<script>alert(3)</script>')
      await context.close()
    }
    expect(trouble).toEqual([])
  }, 240_000)
})
