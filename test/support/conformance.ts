/** Holds every answer that a test gets against the API's own description. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import type { App } from '../../src/app.ts'
import type { Transport } from '../../src/client/client.ts'
import { allRoutes } from '../../src/server/http/assemble.ts'
import { describe } from '../../src/server/openapi/openapi.ts'

interface Known {
  pattern: RegExp
  method: string
  /** by status; null: no JSON is promised for it */
  answers: Map<string, ValidateFunction | null>
}

/** Wraps a transport: an answer that the description does not allow is an error. */
export function conforming(app: App, send: Transport): Transport {
  const known = operations(app)
  return async (request) => {
    const { pathname } = new URL(request.url)
    const response = await send(request)
    const path = pathname.replace(/^\/api\/v1\//, '/api/')
    const method = request.method === 'HEAD' ? 'GET' : request.method
    const operation = known.find((one) => one.method === method && one.pattern.test(path))
    if (operation && request.method !== 'HEAD') await check(operation, `${request.method} ${pathname}`, response.clone())
    return response
  }
}

async function check({ answers }: Known, name: string, response: Response): Promise<void> {
  const { status } = response
  if (!answers.has(String(status))) throw new Error(`${name} answered ${status}, which its description does not know`)
  const validate = answers.get(String(status))
  if (!validate || response.headers.has('content-encoding') || !response.headers.get('content-type')?.startsWith('application/json')) return
  if (!validate(await response.json()))
    throw new Error(`${name} ${status} is not as described: ${JSON.stringify(validate.errors?.slice(0, 3))}`)
}

function operations(app: App): Known[] {
  const ajv = new Ajv2020({ strict: false, validateFormats: true })
  formats.default(ajv)
  const description = describe(allRoutes(app), 'http://localhost', '0.0.0')
  ajv.addSchema({ $id: 'api', ...description })
  return Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { responses }]) => ({
      method: method.toUpperCase(),
      pattern: new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`),
      answers: new Map(
        Object.entries(responses).map(([status, { content }]) => [status, lazily(ajv, content?.['application/json']?.schema)]),
      ),
    })),
  )
}

/** Compiled at the first answer: a test asks few routes of many. */
function lazily(ajv: Ajv2020, schema: object | undefined): ValidateFunction | null {
  if (!schema) return null
  const resolved = '$ref' in schema ? { $ref: `api${(schema as { $ref: string }).$ref}` } : schema
  let compiled: ValidateFunction | undefined
  const validate = (data: unknown) => {
    compiled ??= ajv.compile(resolved)
    const isValid = compiled(data)
    validate.errors = compiled.errors
    return isValid
  }
  validate.errors = undefined as ValidateFunction['errors']
  return validate as unknown as ValidateFunction
}
