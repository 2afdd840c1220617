import { defineConfig } from 'vitest/config'
import { LongestFirst } from './test/support/longest-first.ts'

/** Files that measure memory, event loop or clock of their process: each has a process of its own. */
const isolated = [
  'extract/reader',
  'http/body-limits',
  'http/unread-answers',
  'ocr/engines',
  'security/expressions',
  'security/hostile-size',
  'server/event-loop',
].map((name) => `test/${name}.test.ts`)

/** The lines of the documentation, and the package installed as users do: minutes. `npm run test:package` runs them. */
const ofPackage = ['docs-shell', 'pack'].map((name) => `test/package/${name}.test.ts`)

/** Attacks, errors, kills and outages on every route, command and page; old versions; real services: `npm run test:extended` runs them. */
const extended = [
  'auth/forged-tokens',
  'commands/admin/storage',
  'commands/backup/{damage,exit-codes,kill,rehearse,restore-*,unfinished,versions}',
  'commands/program/{data-owner,docs,every-command,signals,unreachable}',
  'db/{clocks,database-roles,embedded,failover,lock-order,stalled-database}',
  'db/upgrade/database-upgrade',
  'documents/large-answers',
  'documents/retention/paths-of-*',
  'files/{s3-archive,s3-refusals,s3-store}',
  'http/{errors-by-route,mass-assignment,openapi-limits,unread-answers}',
  'jobs/{fairness,races}',
  'ocr/time-limits',
  'releases/*',
  'search/segments',
  'security/*',
  'server/{fleet,kill,npx,replica-reads,systemd}',
  'shared-links/page',
  'simulation',
  'sources/{destructive,globs,kill,many-problems,rollback,rollback-kill,s3,slow,webdav}',
  'web/{page,page-pictures,trash}',
  'worker/{process,versions}',
].map((name) => `test/${name}.test.ts`)

/** With the default of V8, the collection of young objects took a fifth of the CPU time of these processes. */
const execArgv = ['--max-semi-space-size=64']

/** Settings of every project. */
const common = {
  // Only for tests that hang: the machine may be busy.
  testTimeout: 120_000,
  // A second, the default, is too short for two workers and their databases on two cores.
  expect: { poll: { timeout: 20_000 } },
  hookTimeout: 120_000,
}

export default defineConfig({
  test: {
    globalSetup: ['test/support/database.ts'],
    // One more than the cores of CI: a fifth of the time, a file only waits. Four files at once took no less time.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    // What a library that only tests use says of how it is set up.
    onConsoleLog: (log) => !log.startsWith('oidc-provider '),
    projects: [
      { test: { ...common, name: 'isolated', include: isolated, exclude: extended } },
      { test: { ...common, name: 'package', include: ofPackage } },
      { test: { ...common, name: 'extended', include: extended } },
      // A process runs many files, one after the other, because loading dms takes a quarter of the CPU time of small files.
      {
        test: {
          ...common,
          name: 'shared',
          include: ['test/**/*.test.ts'],
          exclude: [...isolated, ...ofPackage, ...extended],
          isolate: false,
          execArgv,
        },
      },
    ],
  },
})
