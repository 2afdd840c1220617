/** Programs of other packages that read types for which dms has no reader. They are optional. */
import { findProgram } from '../../config/find-program.ts'

const converterNames = ['djvulibre', 'libreoffice'] as const
export type ConverterName = (typeof converterNames)[number]

/** Absolute paths of the installed programs. */
export type Converters = Readonly<Partial<Record<ConverterName, string>>>

const programs: Readonly<Record<ConverterName, string>> = { djvulibre: 'ddjvu', libreoffice: 'soffice' }

/** Returns the programs that are on the PATH. */
export const findConverters = (names: readonly string[]): Converters =>
  Object.fromEntries(
    converterNames.flatMap((name) => {
      if (!names.includes(name)) return []
      const path = findProgram(programs[name])
      return path === null ? [] : [[name, path]]
    }),
  )
