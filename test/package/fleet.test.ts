/** Manifests of several servers: deploy/fleet and deploy/kubernetes, held against their schemas and against what the program is. */
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { inspectConfig } from '../../src/config/load.ts'
import { routes as health } from '../../src/server/health.ts'
import { parseWords } from '../support/processes/command-line.ts'

const start = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = join(root, 'deploy/kubernetes')

interface Container {
  args: string[]
  image: string
  env?: { name: string; value: string }[]
  envFrom: ({ configMapRef: { name: string } } | { secretRef: { name: string } })[]
  ports?: { name: string }[]
  resources: { requests: object; limits: { memory: string } }
  securityContext: object
  volumeMounts: { name: string; mountPath: string }[]
  [probe: `${string}Probe`]: { httpGet: { path: string; port: string } } | undefined
}

interface PodSpec {
  containers: Container[]
  volumes: { name: string }[]
  securityContext: object
  enableServiceLinks?: boolean
  terminationGracePeriodSeconds?: number
}

interface Manifest {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace?: string }
  data?: Record<string, string>
  stringData?: Record<string, string>
  spec?: {
    template?: { metadata: { labels: object }; spec: PodSpec }
    selector?: { matchLabels?: object }
    scaleTargetRef?: { name: string }
    ports?: { targetPort: string }[]
    rules?: { http: { paths: { backend: { service: { name: string; port: { name: string } } } }[] } }[]
  }
}

const files = (await readdir(folder)).sort()
const manifests = (
  await Promise.all(
    files.map(async (file) => parseAllDocuments(await readFile(join(folder, file), 'utf8')).map((document) => document.toJS() as Manifest)),
  )
).flat()
const ofKind = (kind: string) => manifests.filter((manifest) => manifest.kind === kind)
const pods = manifests.flatMap(({ metadata: { name }, spec }) => (spec?.template ? [{ name, ...spec.template }] : []))

/** Module of kubernetes-types by API version. */
const modules: Record<string, string> = {
  v1: 'core/v1',
  'apps/v1': 'apps/v1',
  'batch/v1': 'batch/v1',
  'policy/v1': 'policy/v1',
  'autoscaling/v2': 'autoscaling/v2',
  'networking.k8s.io/v1': 'networking/v1',
}

/** Returns what the types of Kubernetes refuse: unknown fields, missing fields and values of another type. */
async function findTypeErrors(checked: readonly Manifest[]): Promise<string> {
  const home = await mkdtemp(join(root, 'node_modules/.dms-kubernetes-'))
  onTestFinished(() => rm(home, { recursive: true, force: true }))
  const lines = checked.map(({ apiVersion, kind, ...fields }, number) => {
    const type = `import('kubernetes-types/${modules[apiVersion]}').${kind}`
    return `export const manifest${number}: ${type} = ${JSON.stringify({ apiVersion, kind, ...fields })}`
  })
  await writeFile(join(home, 'manifests.ts'), lines.join('\n'))
  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  const options = [
    '--noEmit',
    '--strict',
    '--ignoreConfig',
    '--types',
    '',
    '--lib',
    'es2022',
    '--module',
    'esnext',
    '--moduleResolution',
    'bundler',
  ]
  return start(process.execPath, [compiler, ...options, join(home, 'manifests.ts')]).then(
    () => '',
    (error: { stdout: string }) => error.stdout,
  )
}

/** Returns words of the program that it would refuse, and variables that it does not know. */
async function findMistakes(words: readonly string[], variables: Readonly<Record<string, string>>): Promise<string[]> {
  const { problem } = await parseWords(words)
  return [...(problem === null ? [] : [problem]), ...inspectConfig({ env: variables, home: '/nonexistent', etc: '/nonexistent' }).warnings]
}

test('the manifests have the fields and types of Kubernetes, and a wrong field is found', async () => {
  expect(manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`).sort()).toEqual([
    ...['ConfigMap dms', 'Deployment dms-serve', 'Deployment dms-worker', 'HorizontalPodAutoscaler dms-serve'],
    ...['HorizontalPodAutoscaler dms-worker', 'Ingress dms', 'Job dms-migrate', 'Namespace dms', 'PodDisruptionBudget dms-serve'],
    ...['PodDisruptionBudget dms-worker', 'Secret dms', 'Service dms'],
  ])
  const [deployment] = ofKind('Deployment')
  const wrong = structuredClone(deployment) as Manifest
  Object.assign(wrong.spec?.template?.spec.containers[0] ?? {}, { livenesProbe: {} })
  const [right, found] = await Promise.all([findTypeErrors(manifests), findTypeErrors([wrong])])
  expect(right).toBe('')
  expect(found).toContain('livenesProbe')
})

/** Variables that Kubernetes sets in pods for a service, named after it. */
const serviceLinks = Object.fromEntries(
  ofKind('Service').flatMap(({ metadata: { name } }) => [
    [`${name.toUpperCase()}_SERVICE_HOST`, '10.0.0.1'],
    [`${name.toUpperCase()}_PORT`, 'tcp://10.0.0.1:80'],
  ]),
)

test('pods use existing commands and variables, without root, with probes and limits', async () => {
  const [config] = ofKind('ConfigMap')
  const [secret] = ofKind('Secret')
  const paths = health({} as never, () => false).map(({ path }) => path)
  for (const { name, spec } of pods) {
    const [container] = spec.containers as [Container]
    const { args, env = [], envFrom, ports = [], volumeMounts, resources } = container
    expect(envFrom, name).toEqual([{ configMapRef: { name: config?.metadata.name } }, { secretRef: { name: secret?.metadata.name } }])
    const own = Object.fromEntries(env.map((variable) => [variable.name, variable.value]))
    const links = spec.enableServiceLinks === false ? {} : serviceLinks
    expect(await findMistakes(args, { ...config?.data, ...secret?.stringData, ...own, ...links }), name).toEqual([])
    expect(spec.securityContext, name).toMatchObject({ runAsNonRoot: true, runAsUser: 10_001, seccompProfile: { type: 'RuntimeDefault' } })
    expect(container.securityContext, name).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
    expect([Object.keys(resources.requests).sort(), 'memory' in resources.limits], name).toEqual([['cpu', 'memory'], true])
    expect(volumeMounts.map((mount) => [mount.mountPath, spec.volumes.some((volume) => volume.name === mount.name)]).sort(), name).toEqual([
      ['/tmp', true],
      ['/var/lib/dms', true],
    ])
    const probes = Object.entries(container).flatMap(([key, value]) =>
      key.endsWith('Probe') ? [(value as { httpGet: { path: string; port: string } }).httpGet] : [],
    )
    expect(probes.length, name).toBe({ 'dms-serve': 3, 'dms-worker': 2, 'dms-migrate': 0 }[name])
    for (const { path, port } of probes)
      expect([paths.includes(path), ports.some((each) => each.name === port)], name).toEqual([true, true])
  }
  expect(new Set(pods.map(({ spec }) => spec.containers[0]?.image)).size).toBe(1)
})

test('selectors, services, autoscalers and grace periods fit the deployments', () => {
  const labels = Object.fromEntries(pods.map(({ name, metadata }) => [name, metadata.labels]))
  for (const { metadata, spec } of ofKind('Deployment')) expect(spec?.selector?.matchLabels).toEqual(labels[metadata.name])
  for (const { metadata, spec } of ofKind('PodDisruptionBudget')) expect(spec?.selector?.matchLabels).toEqual(labels[metadata.name])
  for (const { metadata, spec } of ofKind('HorizontalPodAutoscaler')) expect(spec?.scaleTargetRef?.name).toBe(metadata.name)
  const [service] = ofKind('Service')
  expect([service?.spec?.selector, service?.spec?.ports?.[0]?.targetPort]).toEqual([labels['dms-serve'], 'http'])
  const backend = ofKind('Ingress')[0]?.spec?.rules?.[0]?.http.paths[0]?.backend.service
  expect(backend).toEqual({ name: service?.metadata.name, port: { name: 'http' } })
  expect(manifests.filter(({ kind, metadata }) => kind !== 'Namespace' && metadata.namespace !== 'dms')).toEqual([])

  const { config } = inspectConfig({ env: ofKind('ConfigMap')[0]?.data ?? {}, home: '/nonexistent', etc: '/nonexistent' })
  const graceOf = (name: string) => 1000 * (pods.find((pod) => pod.name === name)?.spec.terminationGracePeriodSeconds ?? 0)
  expect(graceOf('dms-serve')).toBeGreaterThan((config?.server.drain_delay ?? 0) + (config?.server.shutdown_timeout ?? 0))
  expect(graceOf('dms-worker')).toBeGreaterThan(config?.worker.shutdown_timeout ?? 0)
})

interface Compose {
  services: Record<
    string,
    {
      image: string
      command?: string[]
      environment?: Record<string, string>
      secrets?: string[]
      depends_on?: string[] | Record<string, object>
      healthcheck?: { test: string[] }
      volumes?: string[]
      deploy?: { replicas: number }
    }
  >
  secrets: Record<string, unknown>
  volumes: Record<string, unknown>
}

test('the compose file of a fleet uses existing commands, variables, secrets and volumes', async () => {
  const { services, secrets, volumes } = parse(await readFile(join(root, 'deploy/fleet/compose.yml'), 'utf8'), { merge: true }) as Compose
  const own = Object.entries(services).filter(([, { image }]) => image === 'dms')
  expect(own.map(([name, { deploy }]) => [name, deploy?.replicas ?? 1])).toEqual([
    ['migrate', 1],
    ['serve-1', 1],
    ['serve-2', 1],
    ['worker', 3],
  ])
  for (const [name, { command = [], environment = {}, secrets: used = [], healthcheck }] of own) {
    expect(await findMistakes(command, environment), name).toEqual([])
    const mounted = Object.entries(environment).flatMap(([key, value]) =>
      key.endsWith('_FILE') ? [value.replace('/run/secrets/', '')] : [],
    )
    expect(mounted.sort(), name).toEqual([...used].sort())
    if (healthcheck) expect((await parseWords(healthcheck.test.slice(2))).problem, name).toBe(null)
  }
  for (const [name, { secrets: used = [], depends_on = [], volumes: mounts = [] }] of Object.entries(services)) {
    const needed = Array.isArray(depends_on) ? depends_on : Object.keys(depends_on)
    expect(
      used.filter((secret) => !(secret in secrets)),
      name,
    ).toEqual([])
    expect(
      needed.filter((service) => !(service in services)),
      name,
    ).toEqual([])
    expect(
      mounts.filter((mount) => !mount.startsWith('./') && !((mount.split(':')[0] ?? '') in volumes)),
      name,
    ).toEqual([])
  }
})
