/** Folders of a user (XDG Base Directory Specification). */
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'

/** Environment variables of this process. */
export type Env = Readonly<Record<string, string | undefined>>

/** Folder of contexts.toml. */
export const configFolder = ({ XDG_CONFIG_HOME }: Env): string => below(XDG_CONFIG_HOME, '.config')

/** Folder of credentials.json, locks and upload caches. */
export const stateFolder = ({ XDG_STATE_HOME }: Env): string => below(XDG_STATE_HOME, '.local/state')

/** The specification requires relative paths to be ignored. */
const below = (asked: string | undefined, usual: string): string => join(asked && isAbsolute(asked) ? asked : join(homedir(), usual), 'dms')
