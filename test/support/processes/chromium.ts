/** A real browser, where this machine has one. */
import { type Browser, chromium } from 'playwright-core'
import { findProgram } from '../../../src/config/find-program.ts'

const program = ['chromium', 'chromium-browser', 'google-chrome'].map(findProgram).find((path) => path !== null) ?? null

/** Returns whether there is one; prints a note otherwise. */
export function hasBrowser(): boolean {
  if (program === null) process.stderr.write('skipped: no chromium on the PATH\n')
  return program !== null
}

/** Starts it; the caller closes it. */
export const openBrowser = (): Promise<Browser> =>
  chromium.launch({
    executablePath: program ?? '',
    chromiumSandbox: false,
    // They keep it from talking to anybody but us.
    args: [
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  })
