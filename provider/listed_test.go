package provider

// listed is a request with its entries.
type listed struct {
	Request
	SGL []SGE
}

func (r *listed) post(qp *QP) (ring bool, o Outcome) { return qp.Post(&r.Request, r.SGL) }
