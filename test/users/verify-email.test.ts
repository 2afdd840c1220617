import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { leaseNext } from '../../src/jobs/leases.ts'
import { enqueue } from '../../src/jobs/queue.ts'
import * as users from '../../src/users/users.ts'
import { startApp } from '../support/app.ts'
import { startSmtp } from '../support/servers/smtp.ts'

const password = 'correct horse battery'
const eve = { username: 'eve', email: 'eve@example.org', password }

async function start(settings: Parameters<typeof startApp>[0] = {}) {
  const { url, deliveries, mood } = await startSmtp()
  const started = await startApp({
    'auth.require_email_verification': true,
    'smtp.url': url,
    'smtp.from': 'dms <dms@example.org>',
    'server.public_url': 'https://docs.example.org/dms',
    ...settings,
  })
  const { asStranger, runJobs } = started
  /** the token in the newest mail, after its jobs */
  const mailed = async () => {
    await runJobs(['maintenance'])
    return /verify-email\?token=([\w-]{43})$/m.exec(deliveries.at(-1)?.mail.text ?? '')?.[1] ?? 'none came'
  }
  const login = () => asStranger.send('POST', '/api/auth/login', { username: 'eve', password })
  const verify = (token: string) => asStranger.send('GET', `/api/auth/verify-email?token=${token}`)
  return { ...started, deliveries, mood, mailed, login, verify }
}

const code = async (response: Response) => [response.status, (await response.json()).error?.code]

test('403 EMAIL_NOT_VERIFIED until the link in the mail was opened; it works once', async () => {
  const { app, asStranger, asAdmin, deliveries, mailed, login, verify } = await start()
  const { id } = await asStranger.auth.register(eve)
  expect(await code(await login())).toEqual([403, 'EMAIL_NOT_VERIFIED'])
  const token = await mailed()
  expect(deliveries).toHaveLength(1)
  expect(deliveries[0]).toMatchObject({ recipients: ['eve@example.org'], mail: { from: { address: 'dms@example.org', name: 'dms' } } })
  expect(deliveries[0]?.mail.text).toContain(`https://docs.example.org/dms/api/auth/verify-email?token=${token}`)
  const kept = await app.db.selectFrom('email_verifications').selectAll().execute()
  expect(JSON.stringify([kept, await app.db.selectFrom('jobs').selectAll().execute()])).not.toContain(token)
  // As scanners of mail ask.
  expect((await asStranger.send('HEAD', `/api/auth/verify-email?token=${token}`)).status).toBe(200)
  expect(await code(await login())).toEqual([403, 'EMAIL_NOT_VERIFIED'])
  expect(await asStranger.auth.verifyEmail(token)).toEqual({ message: expect.any(String) })
  const entries = await asAdmin.audit.list({ action: 'GET /api/auth/verify-email' })
  expect(entries).toMatchObject([{ actor: 'eve', actor_id: id, outcome: 'ok', details: { query: { token: '…' } } }])
  expect((await login()).status).toBe(200)
  expect(await code(await verify(token))).toEqual([400, 'VALIDATION_ERROR'])
})

test('401 UNAUTHORIZED, not EMAIL_NOT_VERIFIED, for a wrong password', async () => {
  const { asStranger } = await start()
  await asStranger.auth.register(eve)
  const wrong = await asStranger.send('POST', '/api/auth/login', { username: 'eve', password: 'wrong' })
  expect(await code(wrong)).toEqual([401, 'UNAUTHORIZED'])
})

test('400 VALIDATION_ERROR for a link that is 24 hours old, an unknown one and none', async () => {
  const { asStranger, later, mailed, verify } = await start()
  await asStranger.auth.register(eve)
  const token = await mailed()
  await later(24 * 3_600_000)
  for (const one of [token, 'unknown', '']) expect(await code(await verify(one))).toEqual([400, 'VALIDATION_ERROR'])
})

test('200 once for ten openings of a link at once', async () => {
  const { asStranger, mailed, verify } = await start()
  await asStranger.auth.register(eve)
  const token = await mailed()
  const all = await Promise.all(Array.from({ length: 10 }, () => verify(token)))
  expect(all.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(400)])
})

test('400 VALIDATION_ERROR for a link that is opened while its user gets another address', async () => {
  const { app, asStranger, mailed, verify } = await start()
  const { id } = await asStranger.auth.register(eve)
  const token = await mailed()
  const { answer } = await app.db.transaction().execute(async (trx) => {
    await trx.selectFrom('users').select('id').where('id', '=', id).forNoKeyUpdate().execute()
    const answer = verify(token)
    const waiting = sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    await expect.poll(async () => (await waiting.execute(app.db)).rows.length).toBe(1)
    await users.applyChanges(app, trx, id, { email: 'other@example.org' })
    return { answer }
  })
  expect(await code(await answer)).toEqual([400, 'VALIDATION_ERROR'])
})

test('202 for a resend with an equal body whether or not the account exists; at most three mails per hour to an address', async () => {
  const { asStranger, deliveries, later, mailed, runJobs, verify } = await start()
  await asStranger.auth.register(eve)
  const first = await mailed()
  const bodies = new Set<string>()
  for (let round = 0; round < 5; round++) {
    for (const email of ['EVE@example.org', 'nobody@example.org']) {
      const response = await asStranger.send('POST', '/api/auth/verify-email/resend', { email })
      expect(response.status).toBe(202)
      bodies.add(await response.text())
    }
    await runJobs(['maintenance'])
  }
  expect(bodies.size).toBe(1)
  expect(deliveries.map(({ recipients }) => recipients)).toEqual(Array(3).fill(['eve@example.org']))
  await later(3_600_000)
  await asStranger.auth.resendVerification('eve@example.org')
  await runJobs(['maintenance'])
  expect(deliveries).toHaveLength(4)
  expect((await verify(first)).status).toBe(200)
  await asStranger.auth.resendVerification('eve@example.org')
  await runJobs(['maintenance'])
  expect(deliveries).toHaveLength(4)
})

test('202, and at most 20 mails per hour for one client', async () => {
  const { app, asStranger } = await start({ 'limits.registrations_per_hour': 0 })
  for (let account = 0; account < 22; account++) {
    const email = `eve${account}@example.org`
    await asStranger.auth.register({ username: `eve${account}`, email, password })
    await app.db.deleteFrom('jobs').execute()
    await asStranger.auth.resendVerification(email)
    expect(await app.db.selectFrom('jobs').select('id').execute()).toHaveLength(account < 20 ? 1 : 0)
  }
})

test('a new address has to be verified too, and the link to the old one becomes invalid', async () => {
  const { app, ada, asAda, deliveries, mailed, verify } = await start()
  await asAda.auth.updateProfile({ email: 'first@example.org' })
  const first = await mailed()
  await asAda.auth.updateProfile({ email: 'second@example.org' })
  expect(await code(await verify(first))).toEqual([400, 'VALIDATION_ERROR'])
  expect((await verify(await mailed())).status).toBe(200)
  expect(deliveries.map(({ recipients }) => recipients[0])).toEqual(['first@example.org', 'second@example.org'])
  const { email_verified_at } = await app.db.selectFrom('users').selectAll().where('id', '=', ada.id).executeTakeFirstOrThrow()
  expect(email_verified_at).not.toBeNull()
})

test('at most ten mails per hour for one user, for all addresses together; limits.verification_emails_per_hour for all users', async () => {
  const { asAda, asBob, deliveries, mailed, later } = await start({ 'limits.verification_emails_per_hour': 12 })
  for (let at = 0; at < 12; at++) {
    await asAda.auth.updateProfile({ email: `victim${at}@example.org` })
    await mailed()
  }
  expect(deliveries).toHaveLength(10)
  for (let at = 0; at < 4; at++) {
    await asBob.auth.updateProfile({ email: `other${at}@example.org` })
    await mailed()
  }
  expect(deliveries).toHaveLength(12)
  await later(3_600_000)
  await asBob.auth.updateProfile({ email: 'last@example.org' })
  await mailed()
  expect(deliveries).toHaveLength(13)
})

test('an address that an admin sends back with the user is not verified by that, also in other letters; a new one is', async () => {
  const { asStranger, asAdmin, login, mailed, verify } = await start()
  await asStranger.auth.register(eve)
  const token = await mailed()
  const [user] = await Array.fromAsync(asAdmin.users.list({ q: 'eve' }))
  const send = (changes: object) => asAdmin.send('PUT', `/api/users/${user?.id}`, { ...user, ...changes })
  expect((await send({ display_name: 'Eve' })).status).toBe(200)
  expect((await send({ email: 'Eve@example.org' })).status).toBe(200)
  expect(await code(await login())).toEqual([403, 'EMAIL_NOT_VERIFIED'])
  expect(await mailed()).not.toBe(token)
  expect((await send({ email: 'other@example.org' })).status).toBe(200)
  expect((await login()).status).toBe(200)
  expect((await verify(token)).status).toBe(400)
})

test('the link to an address stays valid while an admin changes other fields of the user', async () => {
  const { asStranger, asAdmin, mailed, verify } = await start()
  await asStranger.auth.register(eve)
  const token = await mailed()
  const [user] = await Array.fromAsync(asAdmin.users.list({ q: 'eve' }))
  await asAdmin.call('PUT', `/api/users/${user?.id}`, { ...user, display_name: 'Eve' })
  expect((await verify(token)).status).toBe(200)
})

test('users that an admin creates can sign in at once', async () => {
  const { asAdmin, deliveries, login, mailed } = await start()
  await asAdmin.users.create(eve)
  expect((await login()).status).toBe(200)
  await mailed()
  expect(deliveries).toEqual([])
})

test('a mail that the server rejects temporarily is sent again', async () => {
  const { app, asStranger, mood, mailed, verify } = await start()
  mood.refuse = true
  await asStranger.auth.register(eve)
  await mailed()
  expect(await app.db.selectFrom('jobs').select(['status', 'attempts', 'error_code']).where('kind', '=', 'verify_email').execute()).toEqual(
    [{ status: 'pending', attempts: 1, error_code: 'MAIL_FAILED' }],
  )
  mood.refuse = false
  await app.db
    .updateTable('jobs')
    .set({ run_at: new Date(0) })
    .execute()
  expect((await verify(await mailed())).status).toBe(200)
})

test.each(['a@b.c\r\nBcc: all@x.org', 'a@b.c\nX: y', 'a@b.c, all@x.org', 'a@b.c>', '<a@b.c>', 'a@b.c all@x.org', '"a\r\n"@b.c'])(
  '400 VALIDATION_ERROR for the address %j, and nothing is sent',
  async (email) => {
    const { app, asStranger } = await start()
    for (const path of ['/api/auth/register', '/api/auth/verify-email/resend'])
      expect(await code(await asStranger.send('POST', path, { ...eve, email }))).toEqual([400, 'VALIDATION_ERROR'])
    expect(await app.db.selectFrom('jobs').select('id').execute()).toEqual([])
  },
)

test('the mail has one recipient, and its own headers and text, whatever the name of the user is', async () => {
  const { asStranger, deliveries, mailed, verify } = await start()
  const odd = { ...eve, username: 'Bcc:all,x.org', email: "eve+o'neill&co@example.org" }
  await asStranger.auth.register(odd)
  const token = await mailed()
  const [{ raw = '', recipients, mail } = {}] = deliveries
  expect(recipients).toEqual([odd.email])
  expect(mail?.to).toEqual([{ address: odd.email, name: '' }])
  // The text neither: a name can be an address of the web.
  expect(raw).not.toMatch(/bcc|x\.org/i)
  expect((await verify(token)).status).toBe(200)
})

test('the link to an address verifies no other one that the user sets while its mail is being prepared', async () => {
  const { app, ada, asAda, deliveries, runJobs } = await start()
  await asAda.auth.updateProfile({ email: 'own@example.org' })
  const client = await app.database.connect('lock')
  await client.query(`begin; select pg_advisory_xact_lock(hashtextextended('verify_email:own@example.org', 0))`)
  const jobs = runJobs(['maintenance'])
  const waiting = () => sql`select from pg_locks where not granted and locktype = 'advisory'`.execute(app.db)
  await expect.poll(async () => (await waiting()).rows.length).toBe(1)
  await asAda.auth.updateProfile({ email: 'other@example.org' })
  await client.end()
  await jobs
  expect(deliveries.map(({ recipients }) => recipients)).toEqual([['other@example.org']])
  const tokens = await app.db.selectFrom('email_verifications').select('user_id').execute()
  expect(tokens).toEqual([{ user_id: ada.id }])
})

test('the mail is sent before stored files are removed that were queued earlier', async () => {
  const { app, asStranger } = await start()
  await app.db.transaction().execute((trx) => enqueue(trx, 'purge', { sha256: '0'.repeat(64) }))
  await asStranger.auth.register(eve)
  expect((await leaseNext(app.db, 'maintenance', 'test', 1000))?.kind).toBe('verify_email')
})
