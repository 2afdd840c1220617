import { defineConfig } from 'vitest/config'
import { LongestFirst } from './test/support/longest-first.ts'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/database.ts'],
    // Two cores: more would only make them wait for each other, and OCR is slow enough alone.
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    // What a library that only tests use says of how it is set up.
    onConsoleLog: (log) => !log.startsWith('oidc-provider '),
    // Ends only what hangs: others may use the cores, too.
    testTimeout: 120_000,
    // A second, the default, is too short for two workers and their databases on two cores.
    expect: { poll: { timeout: 20_000 } },
    hookTimeout: 120_000,
  },
})
