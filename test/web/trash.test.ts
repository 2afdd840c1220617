/** Versions and the trash on the web page. */
import { readFile } from 'node:fs/promises'
import { sql } from 'kysely'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { upload } from '../support/app.ts'
import { replace } from '../support/data/versions.ts'
import { hasBrowser, openBrowser } from '../support/processes/chromium.ts'
import { expectAccessible, hostile, looks, servePage } from '../support/servers/web-page.ts'

let browser: Browser

describe.skipIf(!hasBrowser())('versions and the trash on the web page', () => {
  beforeAll(async () => {
    browser = await openBrowser()
  })
  afterAll(() => browser.close())

  test('without scripts: old versions are downloaded and restored; a document moves to the trash and back', async () => {
    const { open, signIn, asAda, runJobs, trouble } = await servePage(browser)
    const { id } = await upload(asAda, 'plan.txt', 'The first plan')
    await upload(asAda, 'note.txt', 'A note')
    await runJobs()
    await replace(asAda, id, 'new plan.txt', 'The second plan')
    await runJobs()
    const { page } = await open({ javaScriptEnabled: false })
    await signIn(page, `/documents/${id}`)
    const versions = page.getByRole('region', { name: 'Versions' }).getByRole('listitem')
    expect((await versions.allInnerTexts()).map((text) => /Version \d+( Current)?/.exec(text.replace(/\s+/g, ' '))?.[0])).toEqual([
      'Version 2 Current',
      'Version 1',
    ])
    const link = page.getByRole('link', { name: 'Download version 1' })
    const [file] = await Promise.all([page.waitForEvent('download'), link.click()])
    expect([file.suggestedFilename(), await readFile(await file.path(), 'utf8')]).toEqual(['plan.txt', 'The first plan'])
    await page.getByRole('button', { name: 'Restore version 1' }).click()
    expect(await page.getByRole('status').textContent()).toBe('Version 1 is restored as version 3.')
    expect(await page.locator('.page pre').textContent()).toContain('The first plan')

    await page.getByRole('button', { name: 'Move to trash' }).click()
    expect(await page.getByRole('status').textContent()).toContain('“plan” is in the trash.')
    expect(await page.locator('.results h2').allTextContents()).toEqual(['note'])
    await page.getByRole('button', { name: 'Undo' }).click()
    expect(new URL(page.url()).pathname).toBe(`/documents/${id}`)
    expect((await asAda.documents.get(id)).deleted_at).toBeUndefined()

    await page.getByRole('button', { name: 'Move to trash' }).click()
    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Trash' }).click()
    expect(await page.locator('.jobs a').allTextContents()).toEqual(['plan'])
    await page.getByRole('link', { name: 'plan', exact: true }).click()
    expect(await page.getByRole('status').textContent()).toContain('This document has been in the trash since')
    expect(await page.getByRole('button', { name: /Move to trash|Restore version/ }).count()).toBe(0)
    await page.getByRole('link', { name: 'Trash' }).click()
    await page.getByRole('button', { name: 'Restore plan' }).click()
    expect(await page.getByText('The trash is empty').count()).toBe(1)
    expect(await asAda.documents.page()).toMatchObject({ pagination: { total: 2 } })
    expect(trouble).toEqual([])
  })

  test('the trash is emptied after a question; documents under retention stay in it', async () => {
    const { app, open, signIn, asAda } = await servePage(browser)
    const [one, two, kept] = [
      await upload(asAda, '1.txt', 'one'),
      await upload(asAda, '2.txt', 'two'),
      await upload(asAda, '3.txt', 'three'),
    ]
    await sql`update documents set retain_until = now() + interval '1 year' where id = ${kept.id}`.execute(app.db)
    for (const { id } of [one, two, kept]) await asAda.documents.delete(id)
    const { page } = await open({ javaScriptEnabled: false })
    await signIn(page, '/trash')
    await page.getByRole('link', { name: 'Empty trash' }).click()
    expect(await page.locator('h1').textContent()).toBe('Delete 3 documents for good?')
    await page.getByRole('link', { name: 'Keep' }).click()
    expect(await page.locator('.jobs li').count()).toBe(3)
    await page.getByRole('link', { name: 'Empty trash' }).click()
    const late = await upload(asAda, '4.txt', 'four')
    await asAda.documents.delete(late.id)
    await page.getByRole('button', { name: 'Delete for good' }).click()
    expect(await page.getByRole('alert').textContent()).toBe('The number of documents in the trash has changed.')
    expect(await page.locator('h1').textContent()).toBe('Delete 4 documents for good?')
    await page.getByRole('button', { name: 'Delete for good' }).click()
    expect(await page.getByRole('status').textContent()).toBe(
      '3 documents deleted for good. 1 document must be kept, and stays in the trash until then.',
    )
    expect(await page.locator('.jobs a').allTextContents()).toEqual(['3'])
    await page.getByRole('link', { name: '3', exact: true }).click()
    expect(await page.locator('dl').textContent()).toMatch(/Kept until\d/)
    await page.getByRole('link', { name: 'Delete for good' }).click()
    await page.getByRole('button', { name: 'Delete for good' }).click()
    expect(await page.locator('h1').textContent()).toBe('This document must be kept')
    expect((await asAda.documents.get(kept.id)).deleted_at).toBeDefined()
  })

  test('a reload does not repeat the result of an emptied trash, and an address cannot forge a result', async () => {
    const { open, signIn, asAda } = await servePage(browser)
    const { id } = await upload(asAda, '1.txt', 'one')
    await replace(asAda, id, '2.txt', 'two')
    const { page } = await open({ javaScriptEnabled: false })
    await signIn(page, `/documents/${id}?restored=1`)
    expect(await page.getByRole('status').count()).toBe(0)
    await page.goto(`/documents/${id}/delete`)
    await page.getByRole('button', { name: 'Delete for good' }).click()
    expect(await page.getByRole('status').textContent()).toBe('1 document deleted for good.')
    await page.reload()
    expect(await page.getByRole('status').count()).toBe(0)
    await page.goto('/trash?purged=1&retained=1')
    expect(await page.getByRole('status').count()).toBe(0)
  })

  test('a deletion that another click or tab has done is no error', async () => {
    const { open, signIn, asAda } = await servePage(browser)
    const [one, two] = [await upload(asAda, '1.txt', 'one'), await upload(asAda, '2.txt', 'two')]
    await asAda.documents.delete(two.id)
    const { page } = await open({ javaScriptEnabled: false })
    await signIn(page, '/trash')
    await page.getByRole('link', { name: 'Empty trash' }).click()
    await asAda.trash.empty()
    await page.getByRole('button', { name: 'Delete for good' }).click()
    expect(await page.getByText('The trash is empty').count()).toBe(1)
    await page.goto('/trash/empty')
    expect(new URL(page.url()).pathname).toBe('/trash')
    await page.goto(`/documents/${one.id}/delete`)
    await asAda.documents.delete(one.id, { permanent: true })
    await page.getByRole('button', { name: 'Delete for good' }).click()
    expect(await page.getByRole('status').textContent()).toBe('1 document deleted for good.')
  })

  test('without a trash, a document is deleted after a question', async () => {
    const { open, signIn, asAda } = await servePage(browser, { 'documents.trash_days': 0 })
    const { id } = await upload(asAda, 'plan.txt', 'The first plan')
    const { page } = await open({ javaScriptEnabled: false })
    await signIn(page, `/documents/${id}`)
    expect(await page.getByRole('button', { name: 'Move to trash' }).count()).toBe(0)
    await page.getByRole('link', { name: 'Delete', exact: true }).click()
    expect((await asAda.documents.get(id)).title).toBe('plan')
    await page.getByRole('button', { name: 'Delete for good' }).click()
    expect(await page.getByRole('status').textContent()).toBe('1 document deleted for good.')
    expect((await asAda.send('GET', `/api/documents/${id}`)).status).toBe(404)
  })

  test('no violation of axe-core and no overflow; names are never markup', async () => {
    const { app, open, signIn, asAda, runJobs, trouble } = await servePage(browser)
    const { id } = await upload(asAda, 'plan.txt', 'The first plan')
    await runJobs()
    await replace(asAda, id, 'plan.txt', 'The second plan')
    await runJobs()
    const gone = await upload(asAda, 'gone.txt', 'gone')
    await upload(asAda, 'long.txt', 'long', { title: 'W'.repeat(300) }).then(({ id }) => asAda.documents.delete(id))
    await asAda.documents.delete(gone.id)
    await app.db.updateTable('documents').set({ title: hostile, filename: hostile }).where('id', '=', gone.id).execute()
    await app.db.updateTable('document_versions').set({ filename: hostile }).where('document_id', '=', id).execute()
    const paths = [`/documents/${id}?restored=1`, `/documents/${id}/delete`, `/documents/${gone.id}`, `/?trashed=${gone.id}`]
    for (const look of looks) {
      const { context, page } = await open(look)
      await signIn(page)
      for (const path of [...paths, '/trash', '/trash/empty']) {
        await page.goto(path)
        await expectAccessible(page, path)
        expect.soft([path, await page.locator('img[src=x], [onclick], main script').count()]).toEqual([path, 0])
      }
      await context.close()
    }
    expect(trouble).toEqual([])
  }, 240_000)
})
