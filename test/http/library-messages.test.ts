/** No message of the validation library is in an answer, for any input on any route. */
import { expect, test } from 'vitest'
import { z } from 'zod'
import { localTransport } from '../../src/client/local.ts'
import type { AppError } from '../../src/errors.ts'
import { parseInput } from '../../src/http/input.ts'
import { allRoutes } from '../../src/server/http/assemble.ts'
import { startApp } from '../support/app.ts'

const probes = [undefined, null, true, 5, 1.5, -1e9, 1e9, '', 'x', '5', 'x'.repeat(20_000), [], [5], ['x'], [{}], {}, { unknown: 1 }]
/** Beginnings of messages of zod. */
const ofLibrary = /^(?:Invalid|Too |Unrecognized|Not |Expected|No )|received|[<>]=/

/** Returns the messages for a value; none for a valid one. */
function messagesOf(schema: z.ZodType, value: unknown): string[] {
  try {
    parseInput(schema, value)
    return []
  } catch (error) {
    return ((error as AppError).details.issues as { message: string }[]).map(({ message }) => message)
  }
}

/** Returns the names of all fields of a schema. */
const fieldsOf = (schema: z.ZodType): string[] => {
  const described = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Record<string, unknown>
  const forms = [described, ...((described.anyOf as Record<string, unknown>[] | undefined) ?? [])]
  return forms.flatMap(({ properties }) => Object.keys((properties as object | undefined) ?? {}))
}

test('VALIDATION_ERROR has no message of a library, for every route, field and kind of value', async () => {
  const { app } = await startApp()
  const leaks = new Set<string>()
  let messageCount = 0
  for (const { method, path, shape } of allRoutes(app))
    for (const schema of [shape.query, shape.body, shape.form?.fields])
      for (const probe of schema ? probes : [])
        for (const value of [probe, ...fieldsOf(schema!).map((field) => ({ [field]: probe }))])
          for (const message of messagesOf(schema!, value)) {
            messageCount++
            if (ofLibrary.test(message)) leaks.add(`${method} ${path} ${JSON.stringify(value)?.slice(0, 100)}: ${message}`)
          }
  expect(messageCount).toBeGreaterThan(1000)
  expect([...leaks]).toEqual([])
})

test.each([
  ['multipart/form-data', 'x', 'the Content-Type header has no boundary: leave this header to the HTTP client'],
  ['multipart/form-data; boundary=b', '--b\r\nContent-Disp', 'the multipart body is incomplete or malformed: send it again'],
])('400 VALIDATION_ERROR in our own words for a body of type %s that is %j', async (type, body, message) => {
  const { app, ada } = await startApp()
  const request = new Request('http://dms/api/documents/upload', { method: 'POST', headers: { 'content-type': type }, body })
  const response = await localTransport(app, ada.actor)(request)
  expect(response.status).toBe(400)
  expect(((await response.json()) as { error: AppError }).error.details.issues).toEqual([{ path: '', message }])
})
