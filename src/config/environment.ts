import { readFileSync, statSync } from 'node:fs'
import { homedir } from 'node:os'

/** Reads a text file and its mode. Throws the errors of Node. */
export type ReadFile = (path: string) => { readonly text: string; readonly mode: number }

export const readFile: ReadFile = (path) => ({ text: readFileSync(path, 'utf8'), mode: statSync(path).mode })

/** Returns the environment variables. No other file reads `process.env`. It is apart from load.ts, because few commands need the settings. */
export const environment = (): NodeJS.ProcessEnv => process.env

/** Replaces the folders of the user who started this process. Child processes inherit it. */
export function useHome(home: string): void {
  for (const name of ['XDG_CONFIG_HOME', 'XDG_STATE_HOME', 'XDG_DATA_HOME', 'XDG_CACHE_HOME', 'XDG_RUNTIME_DIR', 'TMPDIR'])
    delete process.env[name]
  process.env.HOME = home
}

/**
 * Returns sources of the configuration that stay the same after useHome(). Each file is read once, because a user that root acts as may be unable to
 * read it.
 */
export function captureUser(env: Readonly<Record<string, string | undefined>>) {
  const files = new Map<string, () => ReturnType<ReadFile>>()
  const readOnce: ReadFile = (path) => {
    if (!files.has(path))
      files.set(
        path,
        memorize(() => readFile(path)),
      )
    return files.get(path)!()
  }
  return { env: { ...env }, home: homedir(), uid: process.getuid?.(), readFile: readOnce }
}

/** Calls `read` and returns a function that returns its result, or throws its error. */
function memorize<T>(read: () => T): () => T {
  try {
    const result = read()
    return () => result
  } catch (error) {
    return () => {
      throw error
    }
  }
}
