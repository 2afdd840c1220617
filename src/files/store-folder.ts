/** Where the document store lies on this machine. */
import { join } from 'node:path'
import type { Config } from '../config/schema.ts'

/** The folder of a store of kind `disk`. */
export const storeFolder = ({ storage, data_dir }: Pick<Config, 'storage' | 'data_dir'>): string => storage.path || join(data_dir, 'files')
