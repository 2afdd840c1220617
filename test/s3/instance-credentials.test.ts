/** Credentials of the machine, from endpoints as AWS has them. */
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { openInstanceCredentials, type Variables } from '../../src/s3/instance-credentials.ts'
import { startLying } from '../support/servers/lying-server.ts'

const region = 'eu-test-1'
const start = Date.parse('2026-01-01T00:00:00Z')
const hour = 3600_000

const answer = (key: string, expiresAt: number) =>
  JSON.stringify({
    Code: 'Success',
    AccessKeyId: key,
    SecretAccessKey: 'secret',
    Token: 'session',
    Expiration: new Date(expiresAt).toISOString(),
  })
const open = (variables: Variables, now = () => start) => openInstanceCredentials({ variables, region, now })

async function file(content: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-credentials-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'token'), content)
  return join(folder, 'token')
}

test('of an EC2 instance: asked with a session token, renewed five minutes before they expire, and valid until then', async () => {
  let [time, round, isDown] = [start, 1, false]
  const server = await startLying('', ({ method, url, headers }, response) => {
    if (isDown) return void response.writeHead(500).end()
    if (method === 'PUT' && url === '/latest/api/token')
      return void response.end(`token-${headers['x-aws-ec2-metadata-token-ttl-seconds']}`)
    if (headers['x-aws-ec2-metadata-token'] !== 'token-21600') return void response.writeHead(401).end()
    response.end(url?.endsWith('/archive-role') ? answer(`key-${round}`, time + hour) : 'archive-role')
  })
  const load = open({ AWS_EC2_METADATA_SERVICE_ENDPOINT: server.url }, () => time)
  expect(await Promise.all([load(), load()])).toEqual(
    Array(2).fill({ accessKeyId: 'key-1', secretAccessKey: 'secret', sessionToken: 'session' }),
  )
  const path = '/latest/meta-data/iam/security-credentials/'
  expect(server.seen).toEqual(['PUT /latest/api/token', `GET ${path}`, `GET ${path}archive-role`])

  time += hour - 5 * 60_000 - 1
  await load()
  expect(server.seen).toHaveLength(3)

  ;[time, round, isDown] = [time + 1, 2, true]
  expect(await load()).toMatchObject({ accessKeyId: 'key-1' })
  await expect.poll(() => server.seen.length).toBe(4)
  ;[time, isDown] = [time + 10_000, false]
  expect(await load()).toMatchObject({ accessKeyId: 'key-1' })
  await expect.poll(load).toMatchObject({ accessKeyId: 'key-2' })

  ;[time, isDown] = [time + hour + 1, true]
  await expect(load()).rejects.toThrow(`no credentials from ${server.url}/latest/api/token: status 500`)
})

test('of an EC2 instance: none without a role, or with AWS_EC2_METADATA_DISABLED', async () => {
  const server = await startLying('', ({ method }, response) => response.end(method === 'PUT' ? 'token' : ''))
  const variables = { AWS_EC2_METADATA_SERVICE_ENDPOINT: server.url }
  await expect(open(variables)()).rejects.toThrow('the instance has no role')
  const before = server.seen.length
  await expect(open({ ...variables, AWS_EC2_METADATA_DISABLED: 'true' })()).rejects.toThrow('AWS_EC2_METADATA_DISABLED is true')
  expect(server.seen).toHaveLength(before)
})

test('of a container: asked with its token; another host is asked over https only', async () => {
  const server = await startLying('/credentials', (_, response) => response.end(answer('key', start + hour)))
  const variables = { AWS_CONTAINER_CREDENTIALS_FULL_URI: server.url, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: await file('Basic abc\n') }
  expect(await open(variables)()).toMatchObject({ accessKeyId: 'key' })
  expect(server.headers[0]?.authorization).toBe('Basic abc')
  for (const url of ['http://example.org/', 'http://169.254.169.254/', 'http://10.0.0.1/'])
    await expect(open({ ...variables, AWS_CONTAINER_CREDENTIALS_FULL_URI: url })()).rejects.toThrow('neither https nor the endpoint')
  expect(server.seen).toEqual(['GET /credentials'])
})

test.each(['<html>', '{}', '{"AccessKeyId":"a","SecretAccessKey":"b","Expiration":"soon"}'])('%s holds no credentials', async (body) => {
  const server = await startLying('/', (_, response) => response.end(body))
  await expect(open({ AWS_CONTAINER_CREDENTIALS_FULL_URI: server.url })()).rejects.toThrow('the endpoint of credentials sent')
})

test('of a web identity: its token is exchanged for credentials of the role', async () => {
  let form = ''
  const server = createServer(async (request, response) => {
    form = await text(request)
    response.end(`<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
      <Credentials><AccessKeyId>key</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>session</SessionToken>
      <Expiration>2026-01-01T01:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`)
  })
  onTestFinished(() => void server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const load = open({
    AWS_WEB_IDENTITY_TOKEN_FILE: await file('header.payload.signature\n'),
    AWS_ROLE_ARN: 'arn:aws:iam::1:role/archive',
    AWS_ENDPOINT_URL_STS: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
  })
  expect(await load()).toEqual({ accessKeyId: 'key', secretAccessKey: 'secret', sessionToken: 'session' })
  expect(Object.fromEntries(new URLSearchParams(form))).toMatchObject({
    Action: 'AssumeRoleWithWebIdentity',
    RoleArn: 'arn:aws:iam::1:role/archive',
    RoleSessionName: 'dms',
    WebIdentityToken: 'header.payload.signature',
  })
})
