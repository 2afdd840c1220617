import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { sql } from 'kysely'
import { describe, expect, onTestFinished, test } from 'vitest'
import { localTransport } from '../../src/client/local.ts'
import { loadConfig } from '../../src/config/load.ts'
import { beginRun } from '../../src/sources/sync/run-records.ts'
import { ensureFirstAdmin } from '../../src/users/first-admin.ts'
import { startApp, upload } from '../support/app.ts'
import { run } from '../support/processes/run.ts'
import { openHandlerServer } from '../support/servers/handler-server.ts'
import { type Lie, openBrowser, type Person, publicUrl, startLiar, startProvider } from '../support/servers/oidc.ts'
import { tokenFor } from '../support/servers/server.ts'

const alice: Person = {
  sub: 'alice-1',
  preferred_username: 'alice',
  name: 'Alice Archer',
  email: 'alice@example.com',
  email_verified: true,
  groups: ['staff', 'dms-admins'],
  hd: 'example.com',
}
const bob: Person = { sub: 'bob-1', preferred_username: 'bobby', email: 'bobby@example.com', email_verified: true, groups: ['staff'] }

type Settings = Parameters<typeof startApp>[0]

/** Starts a server with a real provider of these users. */
async function start(settings: Settings = {}, people: Person[] = [alice, bob]) {
  const provider = await startProvider(people)
  const started = await startApp({ ...provider.settings, 'oidc.admin_group': 'dms-admins', ...settings })
  const transport = localTransport(started.app, null)
  const open = () => openBrowser(transport)
  /** Signs in as the user with a new browser. Returns status and body of the last page. */
  const signIn = async (sub: string, browser = open()) => {
    provider.accounts.as = sub
    const { url, response } = await browser.go('/api/auth/oidc/login')
    const body = (await response?.json()) as { token: string; user: Record<string, unknown>; error?: { code: string } }
    return { url, status: response?.status, body, code: body.error?.code, headers: response?.headers }
  }
  const users = () => started.app.db.selectFrom('users').selectAll().orderBy('id').execute()
  return { ...started, ...provider, open, signIn, users }
}

describe('with a real provider', () => {
  test('200 with a token: the account gets name, address and groups; the admin group makes an admin; the next sign-in finds the account', async () => {
    const { signIn, asStranger, asAdmin, users } = await start()
    const before = (await users()).length
    const { status, body, headers } = await signIn('alice-1')
    expect(status).toBe(200)
    expect(headers?.get('cache-control')).toBe('no-store')
    expect(body.user).toMatchObject({
      username: 'alice',
      email: 'alice@example.com',
      role: 'admin',
      display_name: 'Alice Archer',
      auth_method: 'oidc',
    })
    const me = await asStranger.send('GET', '/api/auth/me', undefined, { authorization: `Bearer ${body.token}` })
    expect(await me.json()).toMatchObject({ username: 'alice' })
    expect(await asAdmin.users.groups('alice')).toEqual({
      username: 'alice',
      groups: ['staff', 'dms-admins'],
      synced_at: expect.any(String),
    })
    expect((await signIn('alice-1')).body.user.id).toBe(body.user.id)
    expect((await signIn('bob-1')).body.user).toMatchObject({ username: 'bobby', role: 'user' })
    expect((await users()).length).toBe(before + 2)
  })

  test('302 to the configured page with the token in the fragment only; failures are reported there too', async () => {
    const page = 'https://app.example.org/signed-in'
    const { accounts, open, users } = await start({ 'oidc.post_login_url': page, 'oidc.auto_create_users': false })
    const count = (await users()).length
    const at = (url: URL) => url.origin === 'https://app.example.org'
    expect((await open().go('/api/auth/oidc/login', at)).url.href).toBe(`${page}#error=FORBIDDEN`)
    expect((await users()).length).toBe(count)
    const allowed = await start({ 'oidc.post_login_url': page })
    const { url } = await allowed.open().go('/api/auth/oidc/login?redirect=//evil.example', at)
    expect(url.search).toBe('')
    const answer = new URLSearchParams(url.hash.slice(1))
    expect([...answer.keys()]).toEqual(['token', 'expires_at'])
    expect(answer.get('token')).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+$/)
    expect(accounts.as).toBe('alice-1')
  })

  test('from the web page: 303 back to it with a session cookie; failures are shown at its login; other servers are never redirected to', async () => {
    const { open, accounts, asStranger } = await start({ 'oidc.post_login_url': 'https://app.example.org/' })
    const login = await (await asStranger.send('GET', '/sign-in?next=%2Fqueue', undefined, { accept: 'text/html' })).text()
    expect(login).toContain('href="/api/auth/oidc/login?page=%2Fqueue"')
    expect(login).not.toContain('type="password"')
    for (const [page, path] of [
      ['/queue', '/queue'],
      ['//evil.example/', '/'],
      ['https://evil.example', '/'],
    ] as const) {
      const browser = open()
      const { url, response } = await browser.go(`/api/auth/oidc/login?${new URLSearchParams({ page })}`)
      expect([page, url.href, response?.status]).toEqual([page, publicUrl + path, 200])
      expect(await response?.text()).toContain('Signed in as alice')
      expect([...(browser.cookies.get(new URL(publicUrl).host)?.keys() ?? [])]).toEqual(['dms_session'])
    }
    const refusing = await start({ 'oidc.auto_create_users': false })
    const { url } = await refusing.open().go('/api/auth/oidc/login?page=/queue')
    expect(url.pathname + url.search).toBe('/sign-in?next=%2Fqueue&error=FORBIDDEN')
    expect(accounts.as).toBe('alice-1')
  })

  test('403 FORBIDDEN and no account if accounts are not created automatically', async () => {
    const { signIn, users } = await start({ 'oidc.auto_create_users': false })
    const before = await users()
    expect(await signIn('alice-1')).toMatchObject({ status: 403, code: 'FORBIDDEN' })
    expect(await users()).toEqual(before)
  })

  test('403 FORBIDDEN for another domain, however the address is written; the allowed domain is accepted', async () => {
    const evil = { ...bob, sub: 'evil', email: 'x@example.com', hd: 'evil-example.com' }
    const suffix = { ...bob, sub: 'suffix', email: 'y@example.com', hd: 'example.com.evil' }
    const { signIn } = await start({ 'oidc.hosted_domain': 'example.com' }, [alice, bob, evil, suffix])
    for (const sub of ['bob-1', 'evil', 'suffix']) expect(await signIn(sub)).toMatchObject({ status: 403, code: 'FORBIDDEN' })
    expect((await signIn('alice-1')).status).toBe(200)
  })

  test('409 DUPLICATE_RESOURCE for the address of a local account that is not verified or must not be linked; the account stays unchanged', async () => {
    const thief = { sub: 'thief', preferred_username: 'thief', email: 'ada@example.org', email_verified: true }
    const unverified = { ...thief, sub: 'unverified', email_verified: false }
    const strict = await start({}, [thief])
    const before = await strict.users()
    expect(await strict.signIn('thief')).toMatchObject({ status: 409, code: 'DUPLICATE_RESOURCE' })
    expect(await strict.users()).toEqual(before)
    const linking = await start({ 'oidc.link_by_email': true }, [thief, unverified])
    expect(await linking.signIn('unverified')).toMatchObject({ status: 409 })
    const { body } = await linking.signIn('thief')
    expect(body.user).toMatchObject({ id: linking.ada.id, username: 'ada', auth_method: 'oidc' })
    expect(await linking.signIn('unverified')).toMatchObject({ status: 409 })
  })

  test('an address that only folds to that of a local account does not link it', async () => {
    // The Kelvin sign is k in lower case.
    const thief = { sub: 'thief', preferred_username: 'thief', email: 'mi\u212ae@example.org', email_verified: true }
    const { signIn, asAdmin } = await start({ 'oidc.link_by_email': true }, [thief])
    const mike = await asAdmin.users.create({ username: 'mike', email: 'mike@example.org', password: 'a long password of mike' })
    const { body } = await signIn('thief')
    expect(body.user?.id).not.toBe(mike.id)
    expect((await asAdmin.users.get(mike.id)).auth_method).toBe('local')
  })

  describe('linking a local account by its e-mail address', () => {
    const owner = { ...alice, email: 'ada@example.org' }

    /** The local account has a session, an API token with every scope, a shared link and a source; then the owner of its address signs in. */
    async function link({ isVerified }: { isVerified: boolean }) {
      const started = await start({ 'oidc.link_by_email': true, 'sources.local_roots': tmpdir() }, [owner])
      const { app, ada, asAda, asAdmin, asStranger, signIn } = started
      if (isVerified) await app.db.updateTable('users').set({ email_verified_at: app.now() }).where('id', '=', ada.id).execute()
      const session = await tokenFor(app, ada)
      const { token: apiToken } = await asAda.tokens.create({ name: 'squatter', scopes: ['read', 'write'] })
      const { id } = await upload(asAda, 'a.txt', 'hello')
      const sharedLink = await asAda.sharedLinks.create({ document_id: id })
      const source = await asAdmin.sources.create({ name: 's', type: 'local_folder', url: tmpdir(), sync_interval: 0, owner: ada.id })
      await beginRun(app, source.id, randomUUID())
      await app.db.updateTable('users').set({ password_hash: 'a hash' }).where('id', '=', ada.id).execute()
      const { body, status } = await signIn('alice-1')
      expect([status, body.user.id, body.user.role]).toEqual([200, ada.id, 'admin'])
      const statusOf = async (token: string, path: string) =>
        (await asStranger.send('GET', path, undefined, { authorization: `Bearer ${token}` })).status
      return { ...started, session, apiToken, sharedLink, source, body, statusOf }
    }

    test('401 for all earlier sessions and API tokens; the password is removed, and the new session is an admin', async () => {
      const { app, ada, asAdmin, session, apiToken, body, statusOf } = await link({ isVerified: false })
      expect([await statusOf(session, '/api/users'), await statusOf(session, '/api/documents')]).toEqual([401, 401])
      expect(await statusOf(apiToken, '/api/documents')).toBe(401)
      expect(await statusOf(body.token, '/api/users')).toBe(200)
      const row = await app.db.selectFrom('users').selectAll().where('id', '=', ada.id).executeTakeFirstOrThrow()
      expect([row.password_hash, row.auth_method, row.token_version]).toEqual([null, 'oidc', ada.token_version + 1])
      expect(await asAdmin.tokens.list({ user: ada.id })).toEqual([])
    })

    test('an unverified address: shared links are revoked, sources disabled and their syncs cancelled, with an audit entry and a notification', async () => {
      const { app, asAdmin, asStranger, sharedLink, source, body, ada } = await link({ isVerified: false })
      expect((await asStranger.send('GET', `/api/public/shared/${sharedLink.token}`)).status).toBe(410)
      expect((await asAdmin.sources.get(source.id)).status).toBe('disabled')
      expect((await asAdmin.sources.syncStatus(source.id)).state).toBe('cancelled')
      const entry = await app.db.selectFrom('audit_entries').selectAll().orderBy('seq', 'desc').limit(1).executeTakeFirstOrThrow()
      expect([entry.action, entry.actor, JSON.parse(entry.details)]).toMatchObject([
        'GET /api/auth/oidc/callback',
        'ada',
        { linked: { api_tokens: 1, shared_links: 1, sources: 1 } },
      ])
      const told = await asStranger.send('GET', '/api/notifications', undefined, { authorization: `Bearer ${body.token}` })
      expect(await told.json()).toMatchObject({ notifications: [{ type: 'account_linked', data: { user_id: ada.id } }] })
    })

    test('a verified address: shared links and sources stay, because its owner made the account', async () => {
      const { asAdmin, asStranger, session, sharedLink, source, statusOf } = await link({ isVerified: true })
      expect(await statusOf(session, '/api/documents')).toBe(401)
      expect((await asStranger.send('GET', `/api/public/shared/${sharedLink.token}`)).status).toBe(200)
      expect((await asAdmin.sources.get(source.id)).status).toBe('active')
    })

    test('the next sign-in links nothing again: sessions of the first one stay', async () => {
      const { body, signIn, statusOf } = await link({ isVerified: false })
      expect((await signIn('alice-1')).status).toBe(200)
      expect(await statusOf(body.token, '/api/documents')).toBe(200)
    })
  })

  test('a taken name stays with its user; another name of the provider becomes another account', async () => {
    const admin = { sub: 'not-root', preferred_username: 'ROOT', email: 'not-root@example.com', email_verified: true }
    const { signIn, accounts, admin: root, users } = await start({}, [admin])
    const { body } = await signIn('not-root')
    expect(body.user).toMatchObject({ username: expect.stringMatching(/^ROOT-[0-9a-f]{8}$/), role: 'user' })
    expect(body.user.id).not.toBe(root.id)
    accounts.people.set('not-root', { ...admin, preferred_username: 'ada', email: 'other@example.com' })
    expect((await signIn('not-root')).body.user.id).toBe(body.user.id)
    expect((await users()).filter(({ oidc_subject }) => oidc_subject !== null)).toHaveLength(1)
  })

  test('groups as a string, a list and nested; only the exact group makes admins, and leaving it ends that', async () => {
    const text = { ...bob, sub: 'text', email: 't@example.com', groups: 'dms-admins' }
    const old = { ...bob, sub: 'old', email: 'o@example.com', groups: ['admins', 'dms-admins-old', 'DMS-ADMINS'] }
    const { signIn, accounts } = await start({}, [alice, text, old])
    expect((await signIn('text')).body.user.role).toBe('admin')
    expect((await signIn('old')).body.user.role).toBe('user')
    expect((await signIn('alice-1')).body.user.role).toBe('admin')
    accounts.people.set('alice-1', { ...alice, groups: ['staff'] })
    expect((await signIn('alice-1')).body.user.role).toBe('user')
    const nested = { ...bob, realm_access: { roles: ['dms-admins'] } }
    const keycloak = await start({ 'oidc.groups_claim': 'realm_access.roles' }, [nested])
    expect((await keycloak.signIn('bob-1')).body.user.role).toBe('admin')
  })

  test('without an admin group the role set on the server stays after the next sign-in; until then doctor names the command', async () => {
    const { app, databaseUrl, dataDir, settings, signIn } = await start({ 'oidc.admin_group': '' })
    await app.db.updateTable('users').set({ role: 'user' }).execute()
    await signIn('bob-1')
    const env = {
      DATABASE_URL: databaseUrl,
      DMS_DATA_DIR: dataDir,
      AUTH_METHOD: 'oidc',
      OIDC_ISSUER: settings['oidc.issuer'],
      OIDC_CLIENT_ID: settings['oidc.client_id'],
      OIDC_CLIENT_SECRET: settings['oidc.client_secret'],
    }
    const diagnose = async () => JSON.parse((await run(['doctor', '--only', 'admin', '--json'], { env })).stdout).checks
    const message = 'no admin is enabled, and oidc.admin_group is not set'
    expect(await diagnose()).toMatchObject([{ status: 'warn', message, fix: 'dms users set-role USER admin' }])
    expect(await run(['users', 'set-role', 'bobby', 'admin'], { env })).toMatchObject({ code: 0 })
    expect(await diagnose()).toMatchObject([{ status: 'ok' }])
    expect((await signIn('bob-1')).body.user).toMatchObject({ username: 'bobby', role: 'admin' })
  })

  test('the last active admin stays admin without the group', async () => {
    const { signIn, accounts, asAdmin, admin } = await start()
    await signIn('alice-1')
    await asAdmin.users.update(admin.id, { disabled: true })
    accounts.people.set('alice-1', { ...alice, groups: [] })
    expect((await signIn('alice-1')).body.user.role).toBe('admin')
  })

  test('200 for two users who left the admin group and sign in at once', async () => {
    const { app, signIn, accounts, admin } = await start({}, [alice, { ...bob, groups: ['dms-admins'] }])
    const people = [alice, bob].map((person) => ({ ...person, groups: ['staff'] }))
    for (const { sub } of people) expect((await signIn(sub)).body.user.role).toBe('admin')
    for (const person of people) accounts.people.set(person.sub, person)
    const signIns: ReturnType<typeof signIn>[] = []
    let ended = 0
    await app.db.transaction().execute(async (trx) => {
      // A demotion that locks all admins stops here, and holds its own user.
      await sql`select from users where id = ${admin.id} for update`.execute(trx)
      const waiting = sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      for (const [index, { sub }] of people.entries()) {
        signIns.push(
          signIn(sub).finally(() => {
            ended++
          }),
        )
        await expect.poll(async () => ended + (await waiting.execute(app.db)).rows.length).toBe(index + 1)
      }
    })
    expect((await Promise.all(signIns)).map(({ status, body }) => [status, body.user?.role])).toEqual([
      [200, 'user'],
      [200, 'user'],
    ])
  })

  test.each([false, true])('200 for two first sign-ins of one identity at once (oidc.link_by_email %s)', async (isLinking) => {
    const { app, signIn, users, ada } = await start({ 'oidc.link_by_email': isLinking }, [{ ...alice, email: 'ada@example.org' }])
    if (!isLinking) await app.db.updateTable('users').set({ email: 'a@b.org', email_key: 'a@b.org' }).where('id', '=', ada.id).execute()
    const signIns: ReturnType<typeof signIn>[] = []
    const before = (await users()).length
    await app.db.transaction().execute(async (trx) => {
      // The first stops at its write, and the second behind it.
      await sql`lock table users in share row exclusive mode`.execute(trx)
      for (let count = 1; count <= 2; count++) {
        signIns.push(signIn('alice-1'))
        const waiting = sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
        await expect.poll(async () => (await waiting.execute(app.db)).rows.length).toBe(count)
      }
    })
    const ids = (await Promise.all(signIns)).map(({ status, body }) => [status, body.user?.id])
    expect(ids).toEqual([ids[0], [200, expect.any(String)]])
    expect((await users()).length).toBe(before + (isLinking ? 0 : 1))
  })

  test('200 for two first sign-ins of identities with one name at once: the second gets a hash appended', async () => {
    const { app, signIn } = await start({}, [bob, { ...bob, sub: 'bob-2', email: 'bob2@example.com' }])
    const signIns: ReturnType<typeof signIn>[] = []
    await app.db.transaction().execute(async (trx) => {
      // The first stops at its write, and the second behind it.
      await sql`lock table users in share row exclusive mode`.execute(trx)
      for (const sub of ['bob-1', 'bob-2']) {
        signIns.push(signIn(sub))
        const waiting = sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
        await expect.poll(async () => (await waiting.execute(app.db)).rows.length).toBe(signIns.length)
      }
    })
    expect((await Promise.all(signIns)).map(({ status, body }) => [status, body.user?.username])).toEqual([
      [200, 'bobby'],
      [200, expect.stringMatching(/^bobby-[0-9a-f]{8}$/)],
    ])
  })

  test('200 for a long name that is taken: it is not cut in an emoji', async () => {
    const name = `${'b'.repeat(49)}\u{1f600}`
    const people = ['bob-1', 'bob-2'].map((sub) => ({ ...bob, sub, preferred_username: name, email: `${sub}@example.com` }))
    const { signIn } = await start({}, people)
    expect((await signIn('bob-1')).body.user.username).toBe(name)
    expect((await signIn('bob-2')).body.user.username).toMatch(/^b{49}-[0-9a-f]{8}$/)
  })

  test('401 UNAUTHORIZED for a disabled account', async () => {
    const { signIn, asAdmin } = await start()
    const { body } = await signIn('bob-1')
    await asAdmin.users.update(String(body.user.id), { disabled: true })
    expect(await signIn('bob-1')).toMatchObject({ status: 401, code: 'UNAUTHORIZED' })
  })

  test('400 VALIDATION_ERROR and no token: without the cookie, with that of another browser, a changed state, a second time, after 10 minutes', async () => {
    const { open, later, users } = await start()
    const before = (await users()).length
    const isBack = (url: URL) => url.origin === publicUrl && url.pathname.endsWith('/callback')
    const begin = async () => {
      const browser = open()
      return { browser, url: (await browser.go('/api/auth/oidc/login', isBack)).url }
    }
    const end = async ({ browser, url }: Awaited<ReturnType<typeof begin>>) => {
      const { response } = await browser.go(url.href)
      const body = (await response?.json()) as { error?: { code: string }; token?: string }
      return [response?.status, body.error?.code, body.token]
    }
    const refused = [400, 'VALIDATION_ERROR', undefined]
    const [one, two] = [await begin(), await begin()]
    expect(await end({ browser: open(), url: one.url })).toEqual(refused)
    expect(await end({ browser: two.browser, url: one.url })).toEqual(refused)
    const changed = await begin()
    changed.url.searchParams.set('state', 'changed')
    expect(await end(changed)).toEqual(refused)
    const cookies = new Map([...one.browser.cookies].map(([host, jar]) => [host, new Map(jar)]))
    expect((await end(one))[0]).toBe(200)
    for (const [host, jar] of cookies) one.browser.cookies.set(host, jar)
    expect(await end(one)).toEqual(refused)
    const expired = await begin()
    await later(600_000)
    expect(await end(expired)).toEqual(refused)
    expect((await users()).length).toBe(before + 1)
  })

  test('behind https the login cookie is bound to the host and to https', async () => {
    const { asStranger } = await start({ 'server.public_url': 'https://dms.example.org' })
    const { headers } = await asStranger.send('GET', '/api/auth/oidc/login')
    expect(headers.get('set-cookie')).toMatch(/^__Host-dms_oidc=[^;]+; Max-Age=\d+; Path=\/; HttpOnly; SameSite=Lax; Secure$/)
  })

  test('HEAD on the callback uses no code and leaves no audit entry', async () => {
    const { open, asStranger, asAdmin } = await start()
    const browser = open()
    const isBack = (url: URL) => url.origin === publicUrl && url.pathname.endsWith('/callback')
    const { url } = await browser.go('/api/auth/oidc/login', isBack)
    const cookies = [...(browser.cookies.get(url.host) ?? [])].map(([name, value]) => `${name}=${value}`).join('; ')
    const head = await asStranger.send('HEAD', `${url.pathname}${url.search}`, undefined, { cookie: cookies })
    expect([head.status, head.headers.get('set-cookie'), cookies]).toEqual([200, null, expect.stringContaining('dms_oidc=')])
    expect(await asAdmin.audit.list()).toEqual([])
    expect((await browser.go(url.href)).response?.status).toBe(200)
  })

  test('401 UNAUTHORIZED for a code that the provider does not know, and after the user refused', async () => {
    const { open } = await start()
    const isBack = (url: URL) => url.origin === publicUrl && url.pathname.endsWith('/callback')
    for (const [name, value] of [
      ['code', 'guess'],
      ['error', 'access_denied'],
    ] as const) {
      const browser = open()
      const { url } = await browser.go('/api/auth/oidc/login', isBack)
      if (name === 'error') url.searchParams.delete('code')
      url.searchParams.set(name, value)
      const { response } = await browser.go(url.href)
      expect([response?.status, await response?.json()]).toMatchObject([401, { error: { code: 'UNAUTHORIZED' } }])
    }
  })

  test('shell: the browser is redirected to its port with a code that only the shell can exchange, once, within a minute', async () => {
    const { open, asStranger, asAdmin, later } = await start()
    const verifier = randomBytes(32).toString('base64url')
    const challenge = createHash('sha256').update(verifier).digest('base64url')
    const isShell = (url: URL) => url.origin === 'http://127.0.0.1:4711'
    const codeOf = async () => {
      const { url } = await open().go(`/api/auth/oidc/login?shell_port=4711&shell_challenge=${challenge}`, isShell)
      expect([url.pathname, [...url.searchParams.keys()]]).toEqual(['/', ['code']])
      return url.searchParams.get('code') ?? ''
    }
    const exchange = async (code: string, proof = verifier) =>
      (await asStranger.send('POST', '/api/auth/oidc/exchange', { code, verifier: proof })).status
    const code = await codeOf()
    expect(await exchange(code, randomBytes(32).toString('base64url'))).toBe(401)
    expect(await exchange(`${code}x`)).toBe(401)
    const both = await Promise.all([exchange(code), exchange(code)])
    expect(both.sort()).toEqual([200, 401])
    const expired = await codeOf()
    await later(60_000)
    expect(await exchange(expired)).toBe(401)
    const [disabled, deleted] = [await codeOf(), await codeOf()]
    const user = (await asAdmin.users.page({ q: 'alice' })).data[0]!
    await asAdmin.users.update(user.id, { disabled: true })
    expect(await exchange(disabled)).toBe(401)
    await asAdmin.users.delete(user.id)
    expect(await exchange(deleted)).toBe(401)
    const half = await asStranger.send('GET', '/api/auth/oidc/login?shell_port=4711')
    expect(half.status).toBe(400)
  })

  test('403 FORBIDDEN for passwords and registration; API tokens and tokens of the operator work', async () => {
    const { asStranger, asAda } = await start()
    const send = async (path: string, json: object) => (await asStranger.send('POST', path, json)).status
    expect(await send('/api/auth/login', { username: 'ada', password: 'x' })).toBe(403)
    expect(await send('/api/auth/register', { username: 'x', email: 'x@example.org', password: 'correct horse battery' })).toBe(403)
    const { token } = await asAda.tokens.create({ name: 'cron', scopes: ['read'] })
    const read = await asStranger.send('GET', '/api/documents', undefined, { authorization: `Bearer ${token}` })
    expect(read.status).toBe(200)
  })

  test('no first admin is created with a password that nobody can use', async () => {
    const { app, users } = await start()
    await app.db.deleteFrom('users').execute()
    expect([await ensureFirstAdmin(app), await users()]).toEqual([null, []])
  })

  test('health: 200 with every step; 503 SERVICE_UNAVAILABLE with the failing step; 200 disabled without OIDC', async () => {
    const { asStranger, issuer } = await start()
    const health = (client: typeof asStranger) => client.send('GET', '/api/health/auth/oidc')
    const fine = { discovery: 'ok', authorization_endpoint: 'ok', token_endpoint: 'ok', jwks_uri: 'ok', jwks: 'ok' }
    expect(await (await health(asStranger)).json()).toEqual({ status: 'ok', issuer, checks: fine })
    expect(await (await health((await startApp()).asStranger)).json()).toEqual({ status: 'disabled' })
    const away = await startApp({
      'auth.method': 'oidc',
      'oidc.issuer': 'http://127.0.0.1:1',
      'oidc.client_id': 'dms',
      'oidc.client_secret': 'x',
    })
    const answer = await health(away.asStranger)
    expect([answer.status, await answer.json()]).toMatchObject([
      503,
      { error: { code: 'SERVICE_UNAVAILABLE', details: { checks: { discovery: expect.any(String) } } } },
    ])
    expect((await away.asStranger.send('GET', '/api/auth/oidc/login')).status).toBe(503)
  })
})

describe('a misbehaving provider: 401 UNAUTHORIZED, and no account', () => {
  const other = Math.floor(Date.now() / 1000) - 3600
  const lies: [string, Lie][] = [
    ['another nonce', { claims: (claims) => ({ ...claims, nonce: 'other' }) }],
    ['no nonce', { claims: ({ nonce: _, ...claims }) => claims }],
    ['another issuer', { claims: (claims) => ({ ...claims, iss: 'https://evil.example' }) }],
    ['another audience', { claims: (claims) => ({ ...claims, aud: 'other' }) }],
    ['audiences without an authorized party', { claims: (claims) => ({ ...claims, aud: ['dms', 'other'] }) }],
    ['another authorized party', { claims: (claims) => ({ ...claims, aud: ['dms', 'other'], azp: 'other' }) }],
    ['an expired token', { claims: (claims) => ({ ...claims, iat: other, exp: other + 300 }) }],
    ['a token from the future', { claims: (claims) => ({ ...claims, iat: other + 7200, nbf: other + 7200, exp: other + 9000 }) }],
    ['no subject', { claims: ({ sub: _, ...claims }) => claims }],
    ['no signature', { sign: 'none' }],
    ['the signature of another key', { sign: 'other key' }],
    ['a key that it does not publish', { sign: 'other key', header: { kid: 'two' } }],
    ['the client secret as key', { sign: 'secret' }],
    ['a key inside the token', { sign: 'other key', header: { jwk: { kty: 'RSA', n: 'AQAB', e: 'AQAB' } } }],
    ['no ID token', { token: { id_token: undefined } }],
  ]

  test.each(lies)('%s', async (_, lie) => {
    const liar = await startLiar(lie, alice)
    const { app } = await startApp(liar.settings)
    const before = await app.db.selectFrom('users').select('id').execute()
    const { response } = await openBrowser(localTransport(app, null)).go('/api/auth/oidc/login')
    expect([response?.status, await response?.json()]).toMatchObject([401, { error: { code: 'UNAUTHORIZED', details: {} } }])
    expect(await app.db.selectFrom('users').select('id').execute()).toEqual(before)
  })

  test('valid claims of the same provider are accepted', async () => {
    const { settings } = await startLiar({}, alice)
    const { app } = await startApp(settings)
    expect((await openBrowser(localTransport(app, null)).go('/api/auth/oidc/login')).response?.status).toBe(200)
  })

  test.each([
    ['the token endpoint is closed', 'token_endpoint', 'closed'],
    ['the token endpoint breaks the connection', 'token_endpoint', 'reset'],
    ['the token endpoint answers 503', 'token_endpoint', '503'],
    ['the keys answer 429', 'jwks_uri', '429'],
    ['userinfo answers 500', 'userinfo_endpoint', '500'],
  ] as const)('503 SERVICE_UNAVAILABLE while %s', async (_, endpoint, failure) => {
    const broken = await openHandlerServer('/x', (_request, response) => {
      if (failure === 'reset') response.destroy()
      else response.writeHead(Number(failure)).end('<p>Try again later</p>')
    })
    onTestFinished(broken.close)
    if (failure === 'closed') broken.close()
    const { settings } = await startLiar({ metadata: { [endpoint]: broken.url } }, bob)
    // The claim is missing in the ID token: userinfo is asked.
    const { app } = await startApp({ ...settings, 'oidc.groups_claim': 'roles' })
    const { response } = await openBrowser(localTransport(app, null)).go('/api/auth/oidc/login')
    expect([response?.status, await response?.json()]).toMatchObject([503, { error: { code: 'SERVICE_UNAVAILABLE', details: {} } }])
  })

  test('claims that cannot be stored: 401 for a subject, 403 for an address, none of them in the account', async () => {
    let person: Record<string, unknown> = {}
    const { settings } = await startLiar({ claims: (claims) => ({ ...claims, ...person }) }, bob)
    const { app } = await startApp({ ...settings, 'oidc.admin_group': 'dms-admins' })
    let number = 0
    /** Signs in somebody new with these claims. Returns the status, and the account if it exists. */
    const signIn = async (claims: Record<string, unknown>) => {
      number++
      person = { sub: `sub-${number}`, email: `user${number}@example.com`, preferred_username: `user${number}`, ...claims }
      const { response } = await openBrowser(localTransport(app, null)).go('/api/auth/oidc/login')
      const user = await app.db.selectFrom('users').selectAll().where('email', '=', `user${number}@example.com`).executeTakeFirst()
      return [response?.status, user]
    }
    const hostile: unknown[] = ['a\0b', 'a\ud800b', 'x'.repeat(100_000), 'a\u202eb', 7, {}, [[]], null, { toString: 'x' }]
    for (const value of hostile) {
      const claims = { preferred_username: value, name: value, groups: ['staff', value], email_verified: value, hd: value }
      const groups = value === 'a\u202eb' ? ['staff', value] : ['staff']
      const account = { username: `user${number + 1}`, display_name: '', groups, role: 'user', email_verified_at: null }
      expect(await signIn(claims)).toMatchObject([200, account])
      expect(await signIn({ email: value })).toEqual([403, undefined])
    }
    for (const sub of ['a\0b', 'a\ud800b', 'x'.repeat(10_000), '', 7, null]) expect(await signIn({ sub })).toEqual([401, undefined])
    expect(await signIn({ groups: 'x'.repeat(1_000_000) })).toMatchObject([200, { groups: [] }])
  })

  test('503 for a discovery document with another issuer; 401 for another audience than the configured one', async () => {
    const liar = await startLiar({ metadata: { issuer: 'https://evil.example' } }, alice)
    const { app } = await startApp(liar.settings)
    expect((await openBrowser(localTransport(app, null)).go('/api/auth/oidc/login')).response?.status).toBe(503)
    expect(liar.asked).not.toContain('/authorize')
    const honest = await startLiar({}, alice)
    const strict = await startApp({ ...honest.settings, 'oidc.audience': 'https://api.example' })
    expect((await openBrowser(localTransport(strict.app, null)).go('/api/auth/oidc/login')).response?.status).toBe(401)
  })
})

test('the debug log has claims, and never a token, a code or the secret', async () => {
  const { signIn, app } = await start({ 'oidc.debug': true })
  const lines: string[] = []
  const { info } = app.log
  app.log.info = (...line: unknown[]) => void lines.push(JSON.stringify(line))
  const { body } = await signIn('alice-1')
  app.log.info = info
  const text = lines.join('\n')
  expect(text).toContain('alice@example.com')
  for (const secret of [body.token, 'a secret that only the two know', 'access_token', 'id_token']) expect(text).not.toContain(secret)
})

test('configuration errors name what is missing: secret, key, https', () => {
  const problems = (flags: Record<string, string>) => {
    try {
      loadConfig({ env: {}, flags: { 'auth.method': 'oidc', 'oidc.client_id': 'dms', ...flags } })
      return 'none'
    } catch (error) {
      return (error as Error).message
    }
  }
  const issuer = 'https://id.example.org'
  expect(problems({})).toContain('oidc.issuer')
  expect(problems({ 'oidc.issuer': issuer })).toContain('oidc.client_secret')
  expect(problems({ 'oidc.issuer': issuer, 'oidc.token_endpoint_auth_method': 'private_key_jwt' })).toContain('oidc.client_private_key')
  expect(problems({ 'oidc.issuer': 'http://id.example.org', 'oidc.client_secret': 'x' })).toContain('not https')
  expect(problems({ 'oidc.issuer': issuer, 'oidc.client_secret': 'x' })).toBe('none')
  expect(problems({ 'oidc.issuer': issuer, 'oidc.client_secret': 'x', 'oidc.scope': 'profile email' })).toMatch(
    /^oidc\.scope \(command line\): .* lacks openid/,
  )
  const byKey = { 'oidc.issuer': issuer, 'oidc.token_endpoint_auth_method': 'private_key_jwt' }
  const truncated = '-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n'
  expect(problems({ ...byKey, 'oidc.client_private_key': truncated })).toMatch(
    /^oidc\.client_private_key \(command line\): not a PKCS 8 key/,
  )
})
