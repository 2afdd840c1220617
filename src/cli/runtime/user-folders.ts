/** Where a person's own files of dms are (XDG Base Directory Specification). */
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'

/** The variables of this process. */
export type Env = Readonly<Record<string, string | undefined>>

/** What the person decided: contexts.toml. */
export const configFolder = ({ XDG_CONFIG_HOME }: Env): string => below(XDG_CONFIG_HOME, '.config')

/** What came of it: credentials.json. */
export const stateFolder = ({ XDG_STATE_HOME }: Env): string => below(XDG_STATE_HOME, '.local/state')

/** The specification: a relative path is to be ignored. */
const below = (asked: string | undefined, usual: string): string => join(asked && isAbsolute(asked) ? asked : join(homedir(), usual), 'dms')
