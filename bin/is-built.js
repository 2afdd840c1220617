import { readFileSync, statSync } from 'node:fs'

/** File in which a build lists the files that it was made from. */
export const stampFile = 'dist/sources.json'

/**
 * Returns whether the build in `root`, which ends with a slash, was made from exactly the present files.
 * `isCommand` false: checks only the files of `dms` without a command, which is faster.
 */
export function isBuilt(root, isCommand) {
  try {
    const { program, others } = JSON.parse(readFileSync(root + stampFile, 'utf8'))
    return program.every(isUnchanged) && (!isCommand || others.every(isUnchanged))
  } catch {
    return false
  }

  function isUnchanged([path, size, mtimeMs]) {
    const stats = statSync(root + path)
    return stats.size === size && stats.mtimeMs === mtimeMs
  }
}
