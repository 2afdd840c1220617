import { describe, expect, test } from 'vitest'
import { operator } from '../../src/actor.ts'
import { localClient } from '../../src/client/local.ts'
import { startApp, upload } from '../support/app.ts'
import { makeFolder } from '../support/data/source-folder.ts'

interface Settings {
  theme: string
  language: string
  notifications_enabled: boolean
  ocr_default_language: string
  items_per_page: number
}

describe('settings', () => {
  test('200 with the configured values until something is changed; then the whole object, also in the next request', async () => {
    const { asAda, asBob } = await startApp({ 'limits.per_page_default': 30 })
    const defaults = { theme: 'system', language: 'en', notifications_enabled: true, ocr_default_language: 'auto', items_per_page: 30 }
    expect(await asAda.call('GET', '/api/settings')).toEqual(defaults)
    expect(await asAda.call('PUT', '/api/settings', {})).toEqual(defaults)
    const changed = { ...defaults, theme: 'dark', language: 'de-AT', ocr_default_language: 'eng+deu' }
    expect(
      await asAda.call('PUT', '/api/settings', {
        theme: 'dark',
        language: 'de-AT',
        ocr_default_language: 'eng+deu',
        user_id: '01890a5d-ac96-774b-bcce-b302099a8057',
      }),
    ).toEqual(changed)
    expect(await asAda.call('PUT', '/api/settings', { notifications_enabled: false, items_per_page: 100 })).toEqual({
      ...changed,
      notifications_enabled: false,
      items_per_page: 100,
    })
    expect(await asAda.call<Settings>('GET', '/api/settings')).toMatchObject({ theme: 'dark', items_per_page: 100 })
    expect(await asBob.call('GET', '/api/settings')).toEqual(defaults)
  })

  test('400 VALIDATION_ERROR with the field of the wrong type or range, and nothing is changed', async () => {
    const { asAda } = await startApp()
    const wrong: [path: string, value: unknown][] = [
      ['theme', 'blue'],
      ['language', 'not a tag'],
      ['language', ''],
      ['notifications_enabled', 'yes'],
      ['items_per_page', 0],
      ['items_per_page', 101],
      ['items_per_page', 1.5],
      ['items_per_page', '20'],
      ['ocr_default_language', '../eng'],
      ['ocr_default_language', 'tlh'],
      ['ocr_default_language', 'eng\0'],
    ]
    for (const [path, value] of wrong)
      await expect(asAda.call('PUT', '/api/settings', { notifications_enabled: false, [path]: value })).rejects.toMatchObject({
        status: 400,
        code: 'VALIDATION_ERROR',
        details: { issues: [{ path }] },
      })
    expect(await asAda.call('GET', '/api/settings')).toMatchObject({ notifications_enabled: true })
  })

  test('404 USER_NOT_FOUND for the operator, who is no user', async () => {
    const { app } = await startApp()
    const asOperator = localClient(app, operator)
    expect(await asOperator.call('GET', '/api/settings')).toMatchObject({ items_per_page: 20 })
    await expect(asOperator.call('PUT', '/api/settings', {})).rejects.toMatchObject({ status: 404, code: 'USER_NOT_FOUND' })
  })

  test('200 for settings sent back as read with an OCR language whose model was removed; 400 for a new choice of it', async () => {
    const { app, asAda, asBob } = await startApp()
    await asAda.call('PUT', '/api/settings', { ocr_default_language: 'deu' })
    await app.db.updateTable('user_settings').set({ ocr_default_language: 'tlh' }).execute()
    const asRead = await asAda.call<Settings>('GET', '/api/settings')
    expect(await asAda.call('PUT', '/api/settings', { ...asRead, theme: 'dark' })).toEqual({ ...asRead, theme: 'dark' })
    expect((await asBob.send('PUT', '/api/settings', asRead)).status).toBe(400)
    expect((await asAda.send('PUT', '/api/settings', { ocr_default_language: 'tlh+eng' })).status).toBe(400)
  })

  test('200 for settings sent back as read with a configured page above 100, which stays that of the configuration; other choices stay', async () => {
    const { app, asAda } = await startApp({ 'limits.per_page_default': 200, 'limits.per_page_max': 300 })
    const asRead = await asAda.call<Settings>('GET', '/api/settings')
    expect(asRead.items_per_page).toBe(200)
    expect(await asAda.call('PUT', '/api/settings', { ...asRead, theme: 'dark' })).toEqual({ ...asRead, theme: 'dark' })
    expect((await asAda.send('PUT', '/api/settings', { items_per_page: 201 })).status).toBe(400)
    await asAda.call('PUT', '/api/settings', { ocr_default_language: asRead.ocr_default_language })
    Object.assign(app.config.limits, { per_page_default: 50 })
    Object.assign(app.config.ocr, { default_language: 'deu' })
    expect(await asAda.call('GET', '/api/settings')).toEqual({ ...asRead, theme: 'dark', items_per_page: 50 })
  })

  test('concurrent changes of different fields are all kept', async () => {
    const { asAda } = await startApp()
    const changes = [{ theme: 'light' }, { language: 'fr' }, { notifications_enabled: false }, { items_per_page: 7 }]
    await Promise.all(changes.map((change) => asAda.call('PUT', '/api/settings', change)))
    expect(await asAda.call('GET', '/api/settings')).toMatchObject(Object.assign({}, ...changes))
  })
})

describe('effects of settings', () => {
  test('items_per_page is the length of lists without a limit in the request', async () => {
    const { asAda, asBob } = await startApp()
    for (const name of ['a', 'b', 'c']) await upload(asAda, `${name}.txt`, `text ${name}`, { ocr_enabled: false })
    await asAda.call('PUT', '/api/settings', { items_per_page: 2 })
    for (const path of ['/api/documents', '/api/ocr/queue', '/api/notifications', '/api/search?q=text'])
      expect([path, await asAda.call('GET', path)]).toMatchObject([path, { pagination: { page: 1, per_page: 2 } }])
    expect(await asAda.call('GET', '/api/documents')).toMatchObject({ data: [{}, {}], pagination: { total: 3, has_next: true } })
    expect(await asAda.call('GET', '/api/documents?per_page=3')).toMatchObject({ data: [{}, {}, {}] })
    expect(await asBob.call('GET', '/api/documents')).toMatchObject({ pagination: { per_page: 20 } })
  })

  test('ocr_default_language is the language of uploads without one', async () => {
    const { asAda, asBob } = await startApp()
    await asAda.call('PUT', '/api/settings', { ocr_default_language: 'deu' })
    expect((await upload(asAda, 'a.txt', 'eins')).language).toBe('deu')
    expect((await upload(asAda, 'b.txt', 'deux', { language: 'fra' })).language).toBe('fra')
    expect((await upload(asBob, 'c.txt', 'three')).language).toBe('auto')
    const buffer = Buffer.from('vier')
    await asAda.documents.bulkUpload([{ filename: 'd.txt', size: buffer.length, open: () => [buffer] }])
    expect(await asAda.call('GET', '/api/documents?per_page=1')).toMatchObject({ data: [{ filename: 'd.txt', language: 'deu' }] })
  })

  test('201 for an upload, and a sync, of a user whose ocr_default_language was removed: they take that of the server', async () => {
    const { root, put } = await makeFolder()
    await put('synced.txt', 'zwei')
    const { app, admin, asAdmin, runJobs } = await startApp({ 'ocr.default_language': 'eng', 'sources.local_roots': root })
    await app.db.insertInto('user_settings').values({ user_id: admin.id, ocr_default_language: 'tlh' }).execute()
    const buffer = Buffer.from('eins')
    const file = { filename: 'a.txt', size: buffer.length, open: () => [buffer] }
    const { message, document } = await asAdmin.documents.upload(file)
    expect([document.language, message]).toEqual(['eng', expect.stringContaining('tlh, is not installed: eng is used')])
    expect(await asAdmin.documents.bulkUpload([file])).toMatchObject({ uploaded: 1 })
    await expect(asAdmin.documents.upload(file, { language: 'tlh' })).rejects.toMatchObject({ status: 400 })
    const { id } = await asAdmin.sources.create({ name: 'Folder', type: 'local_folder', url: root })
    await asAdmin.sources.sync(id)
    await runJobs(['sync'])
    expect(await asAdmin.call('GET', `/api/documents?source_id=${id}`)).toMatchObject({
      data: [{ filename: 'synced.txt', language: 'eng' }],
    })
  })
})
