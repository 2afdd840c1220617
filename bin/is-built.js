const { readFileSync, statSync } = process.getBuiltinModule('node:fs')

/** Where a build says of which files it was made. */
export const stampFile = 'dist/sources.json'

/**
 * Whether the build in `root`, which ends with a slash, was made of exactly the files that are there now.
 * `isCommand` false: of those that `dms` without a command is made of; to look at all takes some milliseconds.
 */
export function isBuilt(root, isCommand) {
  try {
    const { program, others } = JSON.parse(readFileSync(root + stampFile, 'utf8'))
    return program.every(isSame) && (!isCommand || others.every(isSame))
  } catch {
    return false
  }

  function isSame([path, size, changed]) {
    const now = statSync(root + path)
    return now.size === size && now.mtimeMs === changed
  }
}
