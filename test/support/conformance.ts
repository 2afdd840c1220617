/** Checks every answer that a test receives against the description of the API. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { LRUCache } from 'lru-cache'
import type { App } from '../../src/app.ts'
import type { Transport } from '../../src/client/client.ts'
import type { Route } from '../../src/http/route.ts'
import { allRoutes } from '../../src/server/http/assemble.ts'
import { describe } from '../../src/server/openapi/openapi.ts'

interface Operation {
  pattern: RegExp
  method: string
  /** by status; null: without JSON */
  answers: () => Map<string, ValidateFunction | null>
}

/** Wraps a transport: an answer that violates the description is an error. */
export function conforming(app: App, send: Transport): Transport {
  let operations: Operation[] | undefined
  return async (request) => {
    const { pathname } = new URL(request.url)
    const response = await send(request)
    const path = pathname.replace(/^\/api\/v1\//, '/api/')
    const method = request.method === 'HEAD' ? 'GET' : request.method
    operations ??= operationsOf(app)
    const operation = operations.find((one) => one.method === method && one.pattern.test(path))
    if (operation && request.method !== 'HEAD') await check(operation, `${request.method} ${pathname}`, response.clone())
    return response
  }
}

async function check(operation: Operation, name: string, response: Response): Promise<void> {
  const { status } = response
  const answers = operation.answers()
  if (!answers.has(String(status))) throw new Error(`${name} answered ${status}, which its description does not know`)
  const validate = answers.get(String(status))
  if (!validate || response.headers.has('content-encoding') || !response.headers.get('content-type')?.startsWith('application/json')) return
  if (!validate(await response.json()))
    throw new Error(`${name} ${status} is not as described: ${JSON.stringify(validate.errors?.slice(0, 3))}`)
}

/** Cached by configuration, on which alone descriptions depend. Describing and compiling all routes for each App took 0.2 s. */
const cache = new LRUCache<string, Operation[]>({ max: 20 })

function operationsOf(app: App): Operation[] {
  const { data_dir, database, ...config } = app.config
  const key = JSON.stringify(config).replaceAll(data_dir, '')
  const operations = cache.get(key) ?? allRoutes(app).map(operationOf)
  cache.set(key, operations)
  return operations
}

function operationOf(route: Route): Operation {
  let answers: Operation['answers'] = () => {
    const described = answersOf(route)
    answers = () => described
    return described
  }
  return {
    method: route.method,
    pattern: new RegExp(`^${route.path.replaceAll('.', '\\.').replaceAll(/:\w+/g, '[^/]+')}$`),
    answers: () => answers(),
  }
}

function answersOf(route: Route): Map<string, ValidateFunction | null> {
  const description = describe([route], 'http://localhost', '0.0.0')
  const operations = Object.values(description.paths).flatMap((methods) => Object.values(methods))
  return new Map(
    operations.flatMap(({ responses }) =>
      Object.entries(responses).map(
        ([status, { content }]) => [status, lazily(content?.['application/json']?.schema)] as [string, ValidateFunction | null],
      ),
    ),
  )
}

const ajv = new Ajv2020({ strict: false, validateFormats: true })
formats.default(ajv)
ajv.addSchema({ $id: 'api', components: describe([], 'http://localhost', '0.0.0').components })

/** Compiled with the first answer: a test uses few routes. */
function lazily(schema: object | undefined): ValidateFunction | null {
  if (!schema) return null
  let compiled: ValidateFunction | undefined
  const validate = (data: unknown) => {
    compiled ??= '$ref' in schema ? ajv.getSchema(`api${schema.$ref}`) : ajv.compile(schema)
    if (!compiled) throw new Error(`there is no ${JSON.stringify(schema)}`)
    const isValid = compiled(data)
    validate.errors = compiled.errors
    return isValid
  }
  validate.errors = undefined as ValidateFunction['errors']
  return validate as unknown as ValidateFunction
}
