import type { z } from 'zod'
import type { Assigned, Changes, Fields, LabelAnswer, ListAnswer } from '../labels/routes.ts'
import { type OpenConnection, pathOf } from './http/connection.ts'

type Label = z.infer<typeof LabelAnswer>

/** Labels and their assignment to documents. */
export const labels = ({ call }: OpenConnection) => ({
  list: async (): Promise<Label[]> => (await call<z.infer<typeof ListAnswer>>('GET', pathOf('labels'))).labels,
  create: (label: z.input<typeof Fields>): Promise<Label> => call('POST', pathOf('labels'), label),
  update: (id: string, changes: z.input<typeof Changes>): Promise<Label> => call('PUT', pathOf('labels', id), changes),
  delete: (id: string): Promise<void> => call('DELETE', pathOf('labels', id)),
  assign: (id: string, document_ids: readonly string[]): Promise<z.infer<typeof Assigned>> =>
    call('POST', pathOf('labels', id, 'assign'), { document_ids }),
  unassign: (id: string, document_ids: readonly string[]): Promise<z.infer<typeof Assigned>> =>
    call('POST', pathOf('labels', id, 'unassign'), { document_ids }),
})
