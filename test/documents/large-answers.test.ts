/** Long texts: truncated in lists, and streamed as a whole without delaying other requests. */
import { expect, test } from 'vitest'
import type { DocumentView } from '../../src/documents/view.ts'
import { startApp } from '../support/app.ts'
import { documentWith, longText as long } from '../support/data/long-documents.ts'

test('lists have the first 2,000 code points of content and say where there are more; GET by id, text and fields=content return all', async () => {
  const { app, asAda } = await startApp()
  const texts = { none: '', exact: '😀'.repeat(2000), one_more: '😀'.repeat(2001), middle: long(40_000), long: long(2_000_000) }
  const ids = new Map<string, string>()
  for (const [title, text] of Object.entries(texts)) ids.set(title, await documentWith(app, asAda, text, title))

  for (const query of ['', '?sort=title', `?date_from=2000-01-01`]) {
    const { data } = await asAda.call<{ data: DocumentView[] }>('GET', `/api/documents${query}`)
    const shown = new Map(data.map((document) => [document.title, document]))
    for (const [title, text] of Object.entries(texts)) {
      const isLong = [...text].length > 2000
      expect(shown.get(title)?.content === [...text].slice(0, 2000).join(''), title).toBe(true)
      expect(shown.get(title)?.content_truncated, title).toBe(isLong ? true : undefined)
    }
  }
  const { data } = await asAda.call<{ data: DocumentView[] }>('GET', '/api/documents?fields=content,title&sort=title&order=asc')
  expect(data.map(({ title }) => title)).toEqual(Object.keys(texts).sort())
  for (const document of data) {
    expect(Object.keys(document)).toEqual(['content', 'title'])
    expect(document.content === texts[document.title as keyof typeof texts], document.title).toBe(true)
  }
  for (const [title, text] of Object.entries(texts)) {
    const id = ids.get(title) ?? ''
    const whole = await asAda.documents.get(id)
    expect(whole.content === text, title).toBe(true)
    expect(whole).not.toHaveProperty('content_truncated')
    expect((await asAda.documents.text(id)) === text, title).toBe(true)
    expect((await asAda.documents.update(id, { title })).content === text, title).toBe(true)
  }
  expect(await asAda.call('GET', '/api/documents?fields=title')).toMatchObject({ data: Array(5).fill({ title: expect.any(String) }) })
})

test('an answer is aborted if its text is replaced or deleted while it is sent, and never continues with the new one', async () => {
  const { app, asAda } = await startApp()
  for (const change of ['replaced', 'deleted'] as const) {
    const id = await documentWith(app, asAda, long(2_000_000))
    const response = await asAda.send('GET', `/api/documents/${id}/text`)
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    await reader.read()
    if (change === 'deleted') await asAda.documents.delete(id, { permanent: true })
    else
      await app.db
        .updateTable('documents')
        .set({ content: long(2_100_000), processed_at: app.now() })
        .where('id', '=', id)
        .execute()
    const rest = async () => {
      while (!(await reader.read()).done) {}
    }
    await expect(rest(), change).rejects.toThrow(/was replaced/)
  }
})

test('pages: all of them, in order and complete, however many and however long', async () => {
  const { app, asAda } = await startApp()
  const id = await documentWith(app, asAda, 'text')
  const texts = Array.from({ length: 120 }, (_, at) => (at === 60 ? long(2_500_000) : at % 7 === 0 ? long(20_000) : `page ${at + 1}`))
  const page = (from: number, to: number) =>
    texts.slice(from, to).map((text, at) => ({ document_id: id, page: from + at + 1, text, source: 'ocr' as const, width: 1, height: 1 }))
  for (const [from, to] of [
    [0, 49],
    [49, 120],
  ] as const) {
    await app.db.insertInto('document_pages').values(page(from, to)).execute()
    const pages = await asAda.documents.pages(id)
    expect(pages.map(({ page }) => page)).toEqual(texts.slice(0, to).map((_, at) => at + 1))
    expect(pages.every(({ text }, at) => text === texts[at])).toBe(true)
    expect(pages[0]).toEqual({
      page: 1,
      text: texts[0],
      source: 'ocr',
      confidence: null,
      width: 1,
      height: 1,
      duration: null,
      language: null,
    })
  }
  const numbers = async (range: object) => (await asAda.documents.pages(id, range)).map(({ page }) => page)
  expect(await numbers({ from: 61, limit: 2 })).toEqual([61, 62])
  expect(await numbers({ from: 30, limit: 60 })).toEqual(Array.from({ length: 60 }, (_, at) => 30 + at))
  expect([await numbers({ from: 119 }), await numbers({ from: 121 })]).toEqual([[119, 120], []])
  const { content: _, ...fields } = await asAda.documents.get(id)
  expect(await asAda.documents.get(id, { content: false })).toEqual(fields)
})

test('a list of more than 1 MB is sent in parts with equal content', async () => {
  const { app, asAda } = await startApp()
  const labels = Array.from({ length: 3000 }, (_, at) => ({ name: `label ${at}`, description: 'ä'.repeat(500) }))
  const rows = labels.map(({ name, description }) => ({ name, name_key: name, color: '#112233', description }))
  await app.db.insertInto('labels').values(rows).execute()
  const response = await asAda.send('GET', '/api/labels')
  let pieces = 0
  const text = new TextDecoder()
  let body = ''
  for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) {
    pieces++
    body += text.decode(piece, { stream: true })
  }
  expect(pieces).toBeGreaterThan(3)
  const answer = JSON.parse(body) as { labels: { name: string; description: string }[]; pagination: object }
  expect(answer.labels.map(({ name, description }) => ({ name, description }))).toEqual(
    labels.toSorted((one, other) => (one.name < other.name ? -1 : 1)),
  )
  expect(answer.pagination).toEqual({ next_cursor: null })
})
