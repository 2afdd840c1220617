import { expect, test } from 'vitest'
import { findExposure } from '../../src/config/exposure.ts'
import { inspectConfig } from '../../src/config/load.ts'

const load = (env: Record<string, string>) => inspectConfig({ env, home: '/nonexistent', etc: '/nonexistent' }).config
const messages = (env: Record<string, string>) => findExposure(load(env)).map(({ message }) => message)
const closed = { ENABLE_REGISTRATION: 'false' }

test.each([
  [{}, 'http://localhost:8080'],
  [{ DMS_SERVER_PORT: '9000' }, 'http://localhost:9000'],
  [{ DMS_SERVER_PORT: '9000', DMS_SERVER_HOST: '0.0.0.0' }, 'http://localhost:9000'],
  [{ DMS_SERVER_PORT: '9000', DMS_SERVER_HOST: 'dms.example.org' }, 'http://dms.example.org:9000'],
  [{ DMS_SERVER_HOST: '2001:db8::7' }, 'http://[2001:db8::7]:8080'],
  [{ DMS_SERVER_PORT: '443', DMS_TLS_CERT: '/c.pem', DMS_TLS_KEY: '/k.pem' }, 'https://localhost:443'],
  [{ DMS_SERVER_PORT: '9000', DMS_PUBLIC_URL: 'https://dms.example.org' }, 'https://dms.example.org'],
  [{ DMS_SERVER_HOST: 'not a host' }, 'http://localhost:8080'],
])('links follow the listener unless public_url is set: %j', (env, url) => {
  expect(load(env).server.public_url).toBe(url)
})

test('no warning for a server that only this machine reaches, on any port', () => {
  expect(messages({})).toEqual([])
  expect(messages({ DMS_SERVER_PORT: '9000' })).toEqual([])
})

test('warnings about open registration and passwords on a public address', () => {
  const env = { DMS_SERVER_HOST: '192.0.2.7' }
  expect(messages(env)).toEqual(['anyone who reaches 192.0.2.7:8080 can register', 'passwords are sent unencrypted to 192.0.2.7:8080'])
  const proxied = { DMS_TRUSTED_PROXIES: '127.0.0.1', DMS_PUBLIC_URL: 'https://dms.example.org' }
  expect(messages(proxied)).toEqual(['anyone who reaches https://dms.example.org can register'])
  expect(messages({ ...proxied, ...closed })).toEqual([])
})

test('warnings about links that lead nowhere', () => {
  expect(messages({ ...closed, DMS_PUBLIC_URL: 'https://dms.example.org' })).toEqual([
    'links begin with https://dms.example.org, but only this machine reaches 127.0.0.1:8080',
  ])
  expect(messages({ ...closed, DMS_TRUSTED_PROXIES: '10.0.0.1' })).toEqual([
    'links begin with http://localhost:8080, which works on this machine only',
  ])
  expect(messages({ ...closed, DMS_SERVER_PORT: '9000', DMS_PUBLIC_URL: 'http://localhost:8080' })).toEqual([
    'links begin with http://localhost:8080, but the server listens on port 9000 without TLS',
  ])
})
