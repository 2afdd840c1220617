/** Returns the environment variables. No other file reads `process.env`. It is apart from load.ts, because few commands need the settings. */
export const environment = (): NodeJS.ProcessEnv => process.env

/** Replaces the folders of the user who started this process. Child processes inherit it. */
export function useHome(home: string): void {
  for (const name of ['XDG_CONFIG_HOME', 'XDG_STATE_HOME', 'XDG_DATA_HOME', 'XDG_CACHE_HOME', 'XDG_RUNTIME_DIR', 'TMPDIR'])
    delete process.env[name]
  process.env.HOME = home
}
