/** File system events of a folder and all below, also after another folder has taken its place. */
import { type FSWatcher, statSync, watch } from 'node:fs'
import { stat } from 'node:fs/promises'

/** Interval at which the folder at the path is compared with the watched one: a mount causes no event. */
const compareMs = 1000

/**
 * Calls `onChange` for each event, and when there is another folder at the path, as after it was mounted. Throws if the folder cannot be watched.
 */
export function openFolderEvents(folder: string, onChange: () => void, onError: (error: Error) => void): { close(): void } {
  const open = (): FSWatcher => watch(folder, { recursive: true }, onChange).on('error', onError)
  let watcher = open()
  let isClosed = false
  let watched: string | null = identityOf(statSync(folder))
  const compare = async (): Promise<void> => {
    const current = await stat(folder).then(identityOf, () => null)
    if (isClosed || current === watched) return
    watched = current
    if (current === null) return
    watcher.close()
    watcher = open()
    onChange()
  }
  const onFailure = (error: NodeJS.ErrnoException): void => {
    // The folder has gone meanwhile. The next comparison tries again.
    if (error.code === 'ENOENT') watched = null
    else onError(error)
  }
  const timer = setInterval(() => void compare().catch(onFailure), compareMs)
  return {
    close() {
      isClosed = true
      clearInterval(timer)
      watcher.close()
    },
  }
}

const identityOf = ({ dev, ino }: { dev: number; ino: number }): string => `${dev} ${ino}`
