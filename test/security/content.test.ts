/** Files and names that would run scripts in a browser: headers of every route that serves files, and the behaviour of a real browser. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser, Page } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { upload } from '../support/app.ts'
import { zip } from '../support/data/office-files.ts'
import { pdf } from '../support/data/pdf-file.ts'
import { hasBrowser, openBrowser } from '../support/processes/chromium.ts'
import { startServer } from '../support/servers/server.ts'

const inlineTypes = [
  'application/pdf',
  'image/png',
  'image/jpeg',
  'image/gif',
  'image/webp',
  'image/bmp',
  'image/avif',
  'image/tiff',
  'text/plain; charset=utf-8',
]

/** A script that reports in every possible way that it ran. */
const script = (tell: string) => `document.title='owned';fetch('${tell}').catch(()=>{});alert('owned')`

/** By name; includes files of two types at once. */
async function hostileFiles(tell: string): Promise<Record<string, Buffer>> {
  const code = script(tell)
  const html = `<!doctype html><title>own</title><img src="${tell}?img"><script>${code}</script>`
  const png = await sharp({ create: { width: 40, height: 30, channels: 3, background: 'red' } })
    .png()
    .toBuffer()
  const jpeg = await sharp(png).jpeg().toBuffer()
  const open = pdf({ pages: [{ text: ['words'] }], objects: { 900: `<< /S /JavaScript /JS (app.alert\\(1\\)) >>` } })
  const files: Record<string, string | Buffer> = {
    'evil.html': html,
    'page.pdf': html,
    'page.png': html,
    'page.txt': html,
    'page.csv': html,
    'page.json': JSON.stringify({ a: html }),
    'page.md': html,
    'evil.xhtml': `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><script>${code}</script></html>`,
    'evil.svg': `<svg xmlns="http://www.w3.org/2000/svg" onload="${code}"><script>${code}</script><image href="${tell}?svg"/></svg>`,
    'image.png': `<svg xmlns="http://www.w3.org/2000/svg" onload="${code}"/>`,
    'evil.xml': `<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="${tell}?xsl"?><x:script xmlns:x="http://www.w3.org/1999/xhtml">${code}</x:script>`,
    'evil.mht': `MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n${html}\r\n--b--\r\n`,
    'evil.eml': `From: a@example.org\r\nSubject: x\r\nMIME-Version: 1.0\r\nContent-Type: text/html\r\n\r\n${html}`,
    'evil.js': code,
    'evil.hta': html,
    'evil.swf': Buffer.from(`FWS\x09${html}`, 'latin1'),
    'utf7.txt': `+ADw-script+AD4-${code}+ADw-/script+AD4-`,
    'utf16.txt': Buffer.from(`\ufeff${html}`, 'utf16le'),
    'gif-and-script.gif': Buffer.from(`GIF89a/*\x00\x00\x00\x00*/=1;${code}`, 'latin1'),
    'png-and-html.png': Buffer.concat([png, Buffer.from(html)]),
    'jpeg-and-html.jpg': Buffer.concat([jpeg, Buffer.from(`--></script>${html}`)]),
    'html-and-pdf.pdf': Buffer.concat([Buffer.from(`<!--%PDF-1.4 -->${html}\n`), open]),
    'pdf-and-html.html': Buffer.concat([open, Buffer.from(html)]),
    'pdf-and-zip.pdf': Buffer.concat([open, zip({ 'evil.html': html })]),
    'zip-and-html.zip': Buffer.concat([zip({ 'a.txt': 'x' }), Buffer.from(html)]),
    'with-javascript.pdf': open,
  }
  return Object.fromEntries(Object.entries(files).map(([name, content]) => [name, Buffer.from(content as string)]))
}

/** Another origin that counts its requests; `/` is a page. */
async function startListener() {
  const hits: string[] = []
  let page = ''
  const server = createServer((request, response) => {
    if (request.url === '/') return void response.setHeader('content-type', 'text/html').end(page)
    if (request.url !== '/favicon.ico') hits.push(request.url ?? '')
    response.end()
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    hits,
    show: (html: string) => {
      page = html
    },
  }
}

async function serve() {
  const listener = await startListener()
  const dms = await startServer({ 'limits.shared_links_per_hour': 1000, 'limits.shared_download_per_minute': 1000, 'storage.fsync': false })
  const files = await hostileFiles(`${listener.url}hit`)
  const documents = await Promise.all(
    Object.entries(files).map(async ([name, bytes]) => {
      const document = await upload(dms.asAda, name, bytes)
      return { name, bytes, document, link: await dms.asAda.sharedLinks.create({ document_id: document.id }) }
    }),
  )
  return { ...dms, listener, documents }
}

test('every route that serves files: inline only for types that cannot run scripts, nosniff, sandboxed; the bytes decide on all routes', async () => {
  const { fetch, documents } = await serve()
  for (const { name, bytes, document, link } of documents) {
    const requests: [how: string, method: string, path: string][] = [
      ['download', 'GET', `/api/documents/${document.id}/download`],
      ['view', 'GET', `/api/documents/${document.id}/view`],
      ['thumbnail', 'GET', `/api/documents/${document.id}/thumbnail`],
      ['text', 'GET', `/api/documents/${document.id}/text`],
      ['public download', 'POST', `/api/public/shared/${link.token}/download`],
      ['public view', 'POST', `/api/public/shared/${link.token}/view`],
    ]
    for (const [how, method, path] of requests) {
      const response = await fetch(path, { method })
      const body = Buffer.from(await response.arrayBuffer())
      const headers = Object.fromEntries(response.headers)
      const isInline = !headers['content-disposition']?.startsWith('attachment')
      const about = `${name}, ${how}`
      expect.soft([about, response.status]).toEqual([about, 200])
      expect.soft(headers, about).toMatchObject({
        'x-content-type-options': 'nosniff',
        'content-security-policy': expect.stringMatching(/default-src 'none'.*sandbox/),
        'cross-origin-resource-policy': expect.stringMatching(/^same-/),
      })
      expect.soft(headers, about).not.toHaveProperty('access-control-allow-origin')
      expect.soft(headers['content-type'], about).not.toMatch(/^text\/html/)
      if (isInline) expect.soft([about, inlineTypes.includes(headers['content-type'] ?? '')]).toEqual([about, true])
      if (how.endsWith('download')) expect.soft([about, isInline]).toEqual([about, false])
      if (/download|view/.test(how)) expect.soft([about, body.equals(bytes)]).toEqual([about, true])
      // Encoded from the pixels, without bytes of the file.
      if (how === 'thumbnail')
        expect.soft([about, headers['content-type']?.startsWith('image/'), body.includes('<script')]).toEqual([about, true, false])
      if (how.endsWith('download') && document.mime_type !== 'text/html')
        expect.soft([about, headers['content-type']]).toEqual([about, document.mime_type])
    }
  }
})

test('the detected type decides how a file is read: an image followed by HTML is an image, HTML named PDF is HTML', async () => {
  const { documents } = await serve()
  const types = Object.fromEntries(documents.map(({ name, document }) => [name, document.mime_type]))
  expect(types).toMatchObject({
    'page.pdf': 'text/html',
    'page.png': 'text/html',
    'image.png': 'image/svg+xml',
    'png-and-html.png': 'image/png',
    'jpeg-and-html.jpg': 'image/jpeg',
    'pdf-and-html.html': 'application/pdf',
    'pdf-and-zip.pdf': 'application/pdf',
  })
})

test('a declared type is not believed', async () => {
  const { fetch } = await startServer()
  for (const type of [
    'text/html;charset=x',
    'image/svg+xml',
    'multipart/x-mixed-replace',
    'application/x-shockwave-flash',
    'a\tb',
    '*/*',
  ]) {
    const body = `--b\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\ncontent-type: ${type}\r\n\r\nplain words\r\n--b--\r\n`
    const headers = { 'content-type': 'multipart/form-data; boundary=b' }
    const made = (await (await fetch('/api/documents/upload', { method: 'POST', headers, body })).json()) as {
      document: { mime_type: string }
    }
    expect([type, made.document.mime_type]).toEqual([type, 'text/plain'])
  }
})

describe.skipIf(!hasBrowser())('in a browser', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await openBrowser()
  })
  afterAll(() => browser.close())

  /** Opens a window that is signed in by a header. Records console messages and pop-ups as problems. */
  async function openPage(headers: Record<string, string> = {}) {
    const context = await browser.newContext({ extraHTTPHeaders: headers, acceptDownloads: true })
    onTestFinished(() => context.close())
    const problems: string[] = []
    context.on('dialog', (dialog) => {
      problems.push(dialog.message())
      void dialog.dismiss()
    })
    const page = await context.newPage()
    return { page, problems: problems }
  }

  /** Opens the URL, which is shown or downloaded. Returns the title of the shown page. */
  async function look(page: Page, address: string): Promise<string> {
    // A navigation that becomes a download fails.
    await page.goto(address).catch(() => null)
    return page.title()
  }

  test('no file runs scripts: opened, embedded in a page of another origin, or fetched by a form', async () => {
    const { url, token, listener, documents: all } = await serve()
    // One route for each kind of answer, because a browser is slow.
    const documents = all.filter(({ name }) => /^evil\.[hsx]|-and-(script|html)|^page\.(png|txt|json)|^utf7|javascript/.test(name))
    const signedIn = await openPage({ authorization: `Bearer ${token}` })
    const visitor = await openPage()
    for (const { name, document } of documents) {
      const view = `${url}/api/documents/${document.id}/view`
      expect.soft([name, await look(signedIn.page, view)]).not.toEqual([name, 'owned'])
    }
    // A request by a form of another origin.
    await visitor.page.route('**/view', (route) => route.continue({ method: 'POST' }))
    for (const { name, link } of documents) {
      const title = await look(visitor.page, `${url}/api/public/shared/${link.token}/view`)
      expect.soft([name, title]).not.toEqual([name, 'owned'])
    }
    const tags = documents.flatMap(({ document }) => {
      const view = `${url}/api/documents/${document.id}/view`
      return [
        `<script src="${view}"></script>`,
        `<iframe src="${view}"></iframe>`,
        `<object data="${view}"></object>`,
        `<img src="${view}">`,
      ]
    })
    listener.show(`<title>elsewhere</title>${tags.join('')}`)
    await signedIn.page.goto(listener.url)
    await signedIn.page.waitForLoadState('load')
    expect(await signedIn.page.title()).toBe('elsewhere')
    expect([signedIn.problems, visitor.problems, listener.hits]).toEqual([[], [], []])
  })

  test('names are never markup: titles, labels, comments, metadata and snippets are shown as text', async () => {
    const { url, token, fetch, asAda, runJobs, listener } = { ...(await startServer()), listener: await startListener() }
    const evil = `</title></script><img src=x onerror="${script(`${listener.url}hit`)}"><script>${script(`${listener.url}hit`)}</script>`
    const document = await upload(asAda, `${evil.replaceAll('/', '')}.txt`, `harbour ${evil} <mark>harbour</mark>`)
    const label = await asAda.labels.create({ name: evil.slice(0, 60), color: '#112233', description: evil })
    await asAda.documents.update(document.id, { title: evil, metadata: { [evil]: evil }, labels: [label.id] })
    await asAda.comments.create(document.id, { content: evil })
    await runJobs()
    const link = await asAda.sharedLinks.create({ document_id: document.id })
    const paths = [
      '/api/documents',
      `/api/documents/${document.id}`,
      '/api/labels',
      `/api/comments/documents/${document.id}/comments`,
      '/api/search?q=harbour',
      `/api/search?q=${encodeURIComponent(evil)}`,
      `/api/documents/${encodeURIComponent(evil)}`,
      `/${encodeURIComponent(evil)}`,
      `/api/documents?sort=${encodeURIComponent(evil)}`,
      `/api/public/shared/${link.token}`,
      `/api/public/shared/${encodeURIComponent(evil)}`,
      `/api/auth/oidc/callback?error=${encodeURIComponent(evil)}&state=${encodeURIComponent(evil)}`,
      '/api/docs',
    ]
    const { page, problems: trouble } = await openPage({ authorization: `Bearer ${token}` })
    for (const path of paths) {
      const response = await page.goto(url + path)
      const type = response?.headers()['content-type'] ?? ''
      expect.soft([path, await page.title()]).not.toEqual([path, 'owned'])
      expect.soft([path, response?.headers()['x-content-type-options']]).toEqual([path, 'nosniff'])
      if (!type.startsWith('text/html')) expect.soft([path, type]).toEqual([path, expect.stringMatching(/^application\/json/)])
    }
    expect([trouble, listener.hits]).toEqual([[], []])
    const answer = await fetch('/api/search?q=harbour')
    expect(answer.status).toBe(200)
    const found = (await answer.json()) as { results: { highlights: { snippet: string }[] }[] }
    const snippets = found.results.flatMap(({ highlights }) => highlights.map(({ snippet }) => snippet))
    expect(snippets.join(' ')).toContain('&lt;mark&gt;')
    expect(snippets.join(' ').replaceAll(/<\/?mark>/g, '')).not.toContain('<')
  })
})
